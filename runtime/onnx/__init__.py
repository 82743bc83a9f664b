"""What the runtime finds out about an ONNX file before it calls it a model."""
