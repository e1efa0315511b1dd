"""Public models as pictures, words, scikit-learn objects and ONNX."""
