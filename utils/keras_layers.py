"""A Keras layer with one expression forward and another backward."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import keras

from utils.two_expressions import forward_backward

__all__ = ["ForwardBackward"]


@keras.saving.register_keras_serializable(package="chain_rule")
class ForwardBackward(keras.layers.Layer):
    """Call a block twice: the value of one call, the derivatives of the other.

    Parameters
    ----------
    block
        A Keras layer or model whose ``call`` takes the keywords of ``forward`` and
        ``backward``. Both calls share its weights. Inputs and outputs may be any nested
        structure of tensors. A `Sequential` or functional model takes a keyword if one of its
        layers has registered it with ``_register_call_context_args``.
    forward
        Keyword arguments of the call that gives the value, such as ``{"noisy": True}``.
    backward
        Keyword arguments of the call that gives the derivatives.
    **kwargs
        ``name``, ``trainable``, ``dtype``, ``activity_regularizer`` of `keras.layers.Layer`.

    Raises
    ------
    TypeError
        If ``block`` is no Keras layer, if ``forward`` or ``backward`` is no mapping, or if the
        block does not take one of their keywords. When it is called: if an output is
        no floating-point tensor, or has another dtype in the two calls.
    ValueError
        When it is called: if the two outputs differ in structure or shape.

    Notes
    -----
    The join is the same in training and in inference, so the value is that of ``forward``
    always: a quantizer quantizes in ``predict``, too. ``training`` reaches the block by
    itself, with the same value in both calls. XLA, and a graph of known shapes, drop the
    backward call where nobody differentiates; for one call elsewhere, call ``layer.block``.

    Both calls start from the same state, and what is left behind is what the forward call
    leaves: the moving statistics of a batch normalization are updated once, by the
    forward values; a dropout drops the same units in both calls; a loss that the block adds is
    added once, and is differentiated as it stands. This holds for state in Keras variables
    and for random numbers from a `keras.random.SeedGenerator`, one to each layer, as
    Keras's own layers have it; not for `tf.random`.

    To load a saved model in another process, import this module first.

    A weight that only the forward call uses gets the gradient None, and ``fit`` warns. If no
    weight at all is reached, the optimizer raises.

    Examples
    --------
    >>> import tensorflow as tf
    >>> class Square(keras.layers.Layer):
    ...     def call(self, x, shifted=False):
    ...         return (x + 0.5) ** 2 if shifted else x**2
    >>> layer = ForwardBackward(Square(), {"shifted": True}, {"shifted": False})
    >>> x = tf.constant([1.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = layer(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([2.25], [2.0])
    """

    def __init__(
        self,
        block: keras.layers.Layer,
        forward: Mapping[str, object],
        backward: Mapping[str, object],
        **kwargs,
    ):
        if not isinstance(block, keras.layers.Layer):
            raise TypeError(
                "ForwardBackward needs a Keras layer or model as block; "
                f"block is {block!r:.60} ({type(block).__name__})."
            )
        for name, keywords in [("forward", forward), ("backward", backward)]:
            if not isinstance(keywords, Mapping):
                raise TypeError(
                    f"ForwardBackward needs a dict of keyword arguments as {name}; "
                    f"{name} is {keywords!r:.60} ({type(keywords).__name__})."
                )
            for keyword in keywords:
                if not _takes(block, keyword):
                    raise TypeError(
                        f"ForwardBackward needs a block whose call takes the keywords of {name}; "
                        f"{block.name} ({type(block).__name__}) takes no {keyword!r}."
                    )
        super().__init__(autocast=False, **kwargs)  # the block casts
        self.block = block
        self.forward = dict(forward)
        self.backward = dict(backward)

    def call(self, inputs):
        with keras.StatelessScope() as scope:  # leaves no trace
            outer = scope.original_scope
            if outer is not None:  # a stateless_call: see its variables
                scope.state_mapping.update(outer.state_mapping)
            backward = self.block(inputs, **self.backward)
        forward = self.block(inputs, **self.forward)
        try:
            return keras.tree.map_structure(_join, forward, backward)
        except (TypeError, ValueError) as error:
            raise type(error)(
                "ForwardBackward needs a block that returns floating-point tensors of the same "
                f"structure, dtypes and shapes in both calls; {self.block.name} returns "
                f"{_describe(forward)} for {self.forward} and "
                f"{_describe(backward)} for {self.backward}."
            ) from error

    def build(self, input_shape):
        # A symbolic call builds whatever the block has not built yet.
        if not all(layer.built for layer in self.block._flatten_layers()):
            self.compute_output_shape(input_shape)

    def compute_output_spec(self, inputs):
        return keras.Operation.compute_output_spec(self, inputs)

    def compute_output_shape(self, input_shape):
        inputs = keras.tree.map_shape_structure(keras.KerasTensor, input_shape)
        spec = self.compute_output_spec(inputs)
        return keras.tree.map_structure(lambda tensor: tensor.shape, spec)

    def compute_mask(self, inputs, previous_mask):
        return None  # the outputs carry the masks that the block gave them

    def get_config(self):
        return {
            **super().get_config(),
            "block": keras.saving.serialize_keras_object(self.block),
            "forward": dict(self.forward),
            "backward": dict(self.backward),
        }

    @classmethod
    def from_config(cls, config):
        block = keras.saving.deserialize_keras_object(config["block"])
        return super().from_config({**config, "block": block})


def _join(forward, backward):
    joined = forward_backward(forward, backward)
    mask = getattr(forward, "_keras_mask", None)
    if mask is not None:
        joined._keras_mask = mask
    return joined


def _takes(block: keras.layers.Layer, keyword: str) -> bool:
    parameters = inspect.signature(block.call).parameters
    if type(block).call.__qualname__ in ("Functional.call", "Sequential.call"):
        # They take any keyword, and drop it where no layer has registered it.
        layers = [block, *block.layers]
        return any(
            keyword in getattr(layer, "_call_context_args", ())
            for layer in layers
        )
    return keyword in parameters or any(
        p.kind is p.VAR_KEYWORD for p in parameters.values()
    )


def _describe(structure) -> str:
    def one(tensor):
        if hasattr(tensor, "dtype") and hasattr(tensor, "shape"):
            return f"{keras.backend.standardize_dtype(tensor.dtype)}{tuple(tensor.shape)}"
        return repr(tensor)

    return str(keras.tree.map_structure(one, structure)).replace("'", "")
