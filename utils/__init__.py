"""The helper package of the book The Chain Rule in TensorFlow."""
