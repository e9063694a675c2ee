"""The GPU forms of the operators, by family. A declaration names its module here (``gpu="geometry"``), which is imported with
the first step that runs on a device."""
