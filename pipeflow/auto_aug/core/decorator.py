"""`@augmentation`: a function of data and a parameter as an augmentation with magnitudes."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow import types
from pipeflow.auto_aug.core.choice import keywords, positional_count
from pipeflow.auto_aug.core.magnitudes import SignedBin, both_signs, magnitudes_of, parameters_of, signed_bin
from pipeflow.declare import outside_package


class Augmentation:
    """A transformation whose strength is a magnitude bin. `@augmentation` makes it from a function."""

    def __init__(
        self,
        op: Callable[..., Any],
        mag_range: Any = None,
        randomly_negate: bool | None = None,
        mag_to_param: Callable[[Any], Any] | None = None,
        param_device: str | None = None,
        name: str | None = None,
    ) -> None:
        self._op = op
        self._settings: dict[str, Any] = {
            "mag_range": mag_range,
            "randomly_negate": randomly_negate,
            "mag_to_param": mag_to_param,
            "param_device": param_device,
            "name": name,
        }
        if (count := positional_count(op)) < 2:
            raise TypeError(
                f"an augmentation takes at least two arguments by position, data and parameter; {self.name} takes {count}"
            )

    def __repr__(self) -> str:
        given = [f"{key}={value!r}" for key, value in self._settings.items() if value is not None]
        return f"Augmentation({', '.join([repr(self._op), *given])})"

    @property
    def op(self) -> Callable[..., Any]:
        """The function."""
        return self._op

    @property
    def mag_range(self) -> Any:
        """The ends of the range of magnitudes, or an array of all magnitudes; None if the strength is fixed."""
        return self._settings["mag_range"]

    @property
    def randomly_negate(self) -> bool:
        """True if the magnitude of half of the samples is negated."""
        return bool(self._settings["randomly_negate"])

    @property
    def mag_to_param(self) -> Callable[[Any], Any]:
        """The function that converts a magnitude to the parameter."""
        return self._settings["mag_to_param"] or np.array

    @property
    def param_device(self) -> str:
        """The device of the parameters: `cpu`, `gpu`, or `auto` for that of the data."""
        return self._settings["param_device"] or "cpu"

    @property
    def name(self) -> str:
        """The name given, or that of the function."""
        return self._settings["name"] or getattr(self._op, "__name__", type(self._op).__name__)

    def augmentation(
        self,
        mag_range: Any = ...,
        randomly_negate: Any = ...,
        mag_to_param: Any = ...,
        param_device: Any = ...,
        name: Any = ...,
        augmentation_cls: type["Augmentation"] | None = None,
    ) -> "Augmentation":
        """The same function with other settings; settings that are not given do not change."""
        changes = {
            "mag_range": mag_range,
            "randomly_negate": randomly_negate,
            "mag_to_param": mag_to_param,
            "param_device": param_device,
            "name": name,
        }
        changed = {key: value for key, value in changes.items() if value is not ...}
        return (augmentation_cls or type(self))(self._op, **{**self._settings, **changed})

    def __call__(
        self, data: Any, *, magnitude_bin: Any = None, num_magnitude_bins: int | None = None, **kwargs: Any
    ) -> Any:
        """Applies the function with the parameter of the bin, and with those of the other keywords that it takes."""
        known = keywords(self._op)
        missing = [name for name, required in known.items() if required and name not in kwargs]
        if missing:
            hint = "; give the height and width of the images as shape=, or use the augmentations for pixels"
            raise TypeError(
                f"augmentation {self.name!r} needs {', '.join(map(repr, missing))}{hint if missing == ['shape'] else ''}"
            )
        device = self.param_device if self.param_device != "auto" else getattr(data, "device", None) or "cpu"
        parameter = self._parameter(magnitude_bin, num_magnitude_bins, device)
        return self._op(data, parameter, **{name: value for name, value in kwargs.items() if name in known})

    def _parameter(self, magnitude_bin: Any, bins: int | None, device: str) -> Any:
        if self.mag_range is None:
            return None
        magnitudes = magnitudes_of(self.mag_range, bins, self.name)
        if magnitude_bin is None:
            raise TypeError(f"augmentation {self.name!r} has magnitudes: say which with magnitude_bin=")
        signed = isinstance(magnitude_bin, SignedBin)
        if not self.randomly_negate:
            index = magnitude_bin.bin if signed else magnitude_bin
            if isinstance(index, (int, np.integer)):
                magnitudes, index = _only(magnitudes, int(index), self.name), 0
            return types.Constant(parameters_of(magnitudes, self.mag_to_param, self.name), device=device)[index]
        if not signed:
            warnings.warn(
                f"augmentation {self.name!r} negates magnitudes at random and draws the signs itself; where each sample takes "
                "one of several augmentations it is faster to draw them once: give magnitude_bin=signed_bin(bin)",
                stacklevel=outside_package(),
            )
            magnitude_bin = signed_bin(magnitude_bin)
        index = magnitude_bin.signed_magnitude_idx
        if isinstance(magnitude_bin.bin, (int, np.integer)):
            magnitudes, index = _only(magnitudes, int(magnitude_bin.bin), self.name), magnitude_bin.random_sign
        table = parameters_of(both_signs(magnitudes), self.mag_to_param, self.name)
        return types.Constant(table, device=device)[index]


def _only(magnitudes: np.ndarray, magnitude_bin: int, name: str) -> np.ndarray:
    if not 0 <= magnitude_bin < len(magnitudes):
        raise ValueError(f"augmentation {name!r} has bins from 0 to {len(magnitudes) - 1}, got {magnitude_bin}")
    return magnitudes[[magnitude_bin]]


def augmentation(
    function: Callable[..., Any] | None = None,
    *,
    mag_range: Any = None,
    randomly_negate: bool | None = None,
    mag_to_param: Callable[[Any], Any] | None = None,
    param_device: str | None = None,
    name: str | None = None,
    augmentation_cls: type[Augmentation] | None = None,
) -> Any:
    """Makes an augmentation of a function `(data, parameter, ...)` that calls operators.

    `mag_range=(low, high)` is divided into the bins of the call, or is an array with the magnitude of each; without it the
    parameter is None. `randomly_negate` negates the magnitude of half of the samples. `mag_to_param` computes the parameter of
    a magnitude, once for each bin while the graph is built. `param_device` is where the parameters are: `cpu`, `gpu` or `auto`.
    """

    def decorate(decorated: Callable[..., Any]) -> Augmentation:
        if isinstance(decorated, Augmentation):
            raise TypeError(
                f"{decorated.name} is an augmentation already: change it with {decorated.name}.augmentation(...), or decorate "
                f"its function {decorated.name}.op"
            )
        if not callable(decorated):
            raise TypeError(f"@augmentation is for a function of data and parameter, got {decorated!r}")
        settings = (mag_range, randomly_negate, mag_to_param, param_device, name)
        return (augmentation_cls or Augmentation)(decorated, *settings)

    return decorate if function is None else decorate(function)
