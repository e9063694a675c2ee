"""DataNode under the module name that DALI users import it from."""

from pipeflow.record.recorder import DataNode

__all__ = ["DataNode"]
