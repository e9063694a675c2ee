"""DataNode under the module name that DALI users import it from."""

from pipeflow.graph import DataNode

__all__ = ["DataNode"]
