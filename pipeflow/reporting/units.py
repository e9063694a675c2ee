"""Times and sizes as people write them."""


def seconds(value: float) -> str:
    """A time with a unit that fits it."""
    if value < 1e-3:
        return f"{value * 1e6:.0f} us"
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"


def size(value: float) -> str:
    """Bytes with a unit that fits them."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if value >= 100 or unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    raise AssertionError
