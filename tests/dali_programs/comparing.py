"""Compares what a program shows under two libraries."""

import numpy as np


def differences(ours, theirs):
    """What differs between two lists of shown values, as text: nothing where they are equal."""
    found = []
    for index, (one, other) in enumerate(zip(ours, theirs)):
        found += [f"shown {index}{text}" for text in _different(one["value"], other["value"], other["within"])]
    if len(ours) != len(theirs):
        last = (ours or [{"value": "nothing"}])[-1]["value"]
        stopped = f"; it stopped with {last['stopped']}" if isinstance(last, dict) and "stopped" in last else ""
        found.append(f"{len(theirs)} values are shown under DALI, {len(ours)} here{stopped}")
    return found


def _different(ours, theirs, within, where=""):
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if "stopped" in ours or "stopped" in theirs:
            return [f"{where}: {_short(theirs)} under DALI, {_short(ours)} here"]
        if "raised" in theirs and "raised" in ours:
            # A subclass of what DALI raises is caught by the same `except`.
            same = not theirs["raised"] or theirs["raised"][0] in ours["raised"]
            return [] if same else [f"{where}: raises {theirs['raised'][0]} under DALI, {ours['raised'][0]} here"]
        if "array" in theirs and "array" in ours:
            return _kept(ours, theirs, within, where)
        if theirs.keys() != ours.keys():
            return [f"{where}: {_short(theirs)} under DALI, {_short(ours)} here"]
        return [line for key in theirs for line in _different(ours[key], theirs[key], within, f"{where}.{key}")]
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            return [f"{where}: {len(theirs)} items under DALI, {len(ours)} here"]
        pairs = enumerate(zip(ours, theirs))
        return [line for index, (one, other) in pairs for line in _different(one, other, within, f"{where}[{index}]")]
    if isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray):
        return _arrays(ours, theirs, within, where)
    number = isinstance(theirs, float) and isinstance(ours, float)
    if number and (np.isclose(ours, theirs, rtol=1e-5, atol=within) or (ours != ours and theirs != theirs)):
        return []
    return (
        []
        if type(ours) is type(theirs) and ours == theirs
        else [f"{where}: {_short(theirs)} under DALI, {_short(ours)} here"]
    )


def _kept(ours, theirs, within, where):
    """Two arrays of which only some values were kept."""
    if (ours["array"], ours["shape"]) != (theirs["array"], theirs["shape"]):
        return [f"{where}: {theirs['array']} {theirs['shape']} under DALI, {ours['array']} {ours['shape']} here"]
    if theirs["array"] == "text":
        return _different(ours["values"], theirs["values"], within, where)
    kind = np.dtype(theirs["array"])
    exact = kind.kind in "biu" and not within
    found = _numbers(ours["values"], theirs["values"], kind, exact, within, where)
    wholes = [name for name in ("mean", "low", "high") if name in theirs]
    one, other = (np.array([side[name] for name in wholes]) for side in (ours, theirs))
    return found or _numbers(one, other, kind, False, within, f"{where} ({', '.join(wholes)})")


def _arrays(ours, theirs, within, where):
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return [f"{where}: {theirs.dtype} {theirs.shape} under DALI, {ours.dtype} {ours.shape} here"]
    if ours.dtype.kind in "SU" or not ours.size:
        return [] if (ours == theirs).all() else [f"{where}: {_short(theirs)} under DALI, {_short(ours)} here"]
    exact = ours.dtype.kind in "biu" and not within
    return _numbers(ours, theirs, ours.dtype, exact, within, where)


def _numbers(ours, theirs, dtype, exact, within, where):
    one, other = ours.astype(np.float64), theirs.astype(np.float64)
    if exact:
        close = ours == theirs
    else:
        digits = 1e-3 if dtype == np.float16 else 1e-5
        close = np.isclose(one, other, rtol=digits, atol=max(within, 1e-6), equal_nan=True)
    if close.all():
        return []
    at = tuple(int(index) for index in np.argwhere(~close)[0])
    with np.errstate(invalid="ignore"):
        worst = np.nanmax(np.abs(one - other))
    return [
        f"{where}: {np.count_nonzero(~close)} of {close.size} numbers differ, by up to {worst:g}; at {at} it is "
        f"{theirs[at]} under DALI and {ours[at]} here"
    ]


def _short(value):
    if isinstance(value, dict) and "stopped" in value:
        return f"stops with {(value['raised'] or ['an exception'])[0]}: {value['stopped']:.500}"
    text = repr(value)
    return text if len(text) < 300 else text[:300] + "..."
