"""Kubernetes: what is seen of an attempt there, and what it means. The only place that talks to a cluster's API."""
