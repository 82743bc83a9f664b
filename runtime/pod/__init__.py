"""Inside a training pod: its first process, and the record of its end that outlives the pod."""
