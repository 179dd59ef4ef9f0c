"""ONNX in: fetch, optimise, export to the flat file, mutate, compute references."""
