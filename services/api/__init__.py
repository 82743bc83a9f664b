"""The HTTP API: what the platform's control plane, and anybody with a token, asks of this product."""
