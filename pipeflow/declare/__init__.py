"""One operator, one declaration.

``@operator`` turns a function into an OpDef: its signature is the schema and its body the CPU kernel for one sample.
``fn.name``, ``ops.Name``, the eager call, argument checks, stubs, docs and the registry tests are made from the OpDef.

Words: a *sample* is one array; a *batch* is a list of them. *Data* is positional, *arguments* are keywords: ``Arg[T]``
is a constant or one value per sample, plain ``T`` is static, and the operator's ``draw`` computes ``Drawn[T]``.
A call of an OpDef is checked and passed to the current ``interpreter``. Inside a pipeline definition it is recorded;
everywhere else it runs at once (``eager``).
"""

from pipeflow.declare.amounts import bytes_of as bytes_of
from pipeflow.declare.amounts import positive as positive
from pipeflow.declare.binding import Call as Call
from pipeflow.declare.binding import bind as bind
from pipeflow.declare.binding import check_names as check_names
from pipeflow.declare.binding import check_rule as check_rule
from pipeflow.declare.binding import input_set_size as input_set_size
from pipeflow.declare.binding import outside_package as outside_package
from pipeflow.declare.binding import spread as spread
from pipeflow.declare.bound import KEPT_SPECS as KEPT_SPECS
from pipeflow.declare.bound import Allocate as Allocate
from pipeflow.declare.bound import Bound as Bound
from pipeflow.declare.bound import Inferred as Inferred
from pipeflow.declare.bound import run_whole as run_whole
from pipeflow.declare.bound import shared_extents as shared_extents
from pipeflow.declare.calls import BatchCall as BatchCall
from pipeflow.declare.calls import Traits as Traits
from pipeflow.declare.calls import WorkerCall as WorkerCall
from pipeflow.declare.drawn import ReportedArray as ReportedArray
from pipeflow.declare.drawn import nodes_of as nodes_of
from pipeflow.declare.eager import eager as eager
from pipeflow.declare.eager import run_batch as run_batch
from pipeflow.declare.frameworks import FRAMEWORK_MODULES as FRAMEWORK_MODULES
from pipeflow.declare.frameworks import Framework as Framework
from pipeflow.declare.frameworks import framework as framework
from pipeflow.declare.frameworks import frameworks as frameworks
from pipeflow.declare.kernel_calls import KernelArray as KernelArray
from pipeflow.declare.kernel_calls import KernelCalls as KernelCalls
from pipeflow.declare.kernel_calls import MakeRows as MakeRows
from pipeflow.declare.kernel_calls import NoExample as NoExample
from pipeflow.declare.kernel_calls import NotReady as NotReady
from pipeflow.declare.kernel_calls import Number as Number
from pipeflow.declare.kernel_calls import OfThread as OfThread
from pipeflow.declare.kernel_calls import Real as Real
from pipeflow.declare.kernel_calls import Several as Several
from pipeflow.declare.kernel_calls import largest as largest
from pipeflow.declare.layouts import check_layouts as check_layouts
from pipeflow.declare.many import Joined as Joined
from pipeflow.declare.many import Many as Many
from pipeflow.declare.many import as_argument as as_argument
from pipeflow.declare.many import as_column as as_column
from pipeflow.declare.many import parts as parts
from pipeflow.declare.namespaces import open_namespaces as open_namespaces
from pipeflow.declare.opdef import Link as Link
from pipeflow.declare.opdef import OpDef as OpDef
from pipeflow.declare.opdef import Part as Part
from pipeflow.declare.opdef import class_name as class_name
from pipeflow.declare.opdef import counted as counted
from pipeflow.declare.opdef import universal as universal
from pipeflow.declare.parameters import DTYPE as DTYPE
from pipeflow.declare.parameters import FORMER_DTYPE as FORMER_DTYPE
from pipeflow.declare.parameters import HIDDEN as HIDDEN
from pipeflow.declare.parameters import NO_EFFECT as NO_EFFECT
from pipeflow.declare.parameters import REQUIRED as REQUIRED
from pipeflow.declare.parameters import SEED as SEED
from pipeflow.declare.parameters import UNIVERSAL as UNIVERSAL
from pipeflow.declare.parameters import Arg as Arg
from pipeflow.declare.parameters import Args as Args
from pipeflow.declare.parameters import Drawn as Drawn
from pipeflow.declare.parameters import DType as DType
from pipeflow.declare.parameters import Floats as Floats
from pipeflow.declare.parameters import Ints as Ints
from pipeflow.declare.parameters import Layout as Layout
from pipeflow.declare.parameters import Node as Node
from pipeflow.declare.parameters import Out as Out
from pipeflow.declare.parameters import Param as Param
from pipeflow.declare.parameters import Role as Role
from pipeflow.declare.parameters import Sample as Sample
from pipeflow.declare.parameters import T as T
from pipeflow.declare.parameters import default as default
from pipeflow.declare.parameters import parameters as parameters
from pipeflow.declare.parameters import required as required
from pipeflow.declare.registration import OpFunction as OpFunction
from pipeflow.declare.registration import alias as alias
from pipeflow.declare.registration import find as find
from pipeflow.declare.registration import interpreter as interpreter
from pipeflow.declare.registration import makes_chains as makes_chains
from pipeflow.declare.registration import operator as operator
from pipeflow.declare.registration import registry as registry
from pipeflow.declare.registration import source as source
from pipeflow.declare.sources import ByteArrays as ByteArrays
from pipeflow.declare.sources import Ending as Ending
from pipeflow.declare.sources import Feed as Feed
from pipeflow.declare.sources import Fetched as Fetched
from pipeflow.declare.sources import FilesToRead as FilesToRead
from pipeflow.declare.sources import Request as Request
from pipeflow.declare.sources import Room as Room
from pipeflow.declare.sources import Source as Source
from pipeflow.declare.specs import UNKNOWN as UNKNOWN
from pipeflow.declare.specs import NamedOutputs as NamedOutputs
from pipeflow.declare.specs import Outputs as Outputs
from pipeflow.declare.specs import OutputSpec as OutputSpec
from pipeflow.declare.specs import Spec as Spec
from pipeflow.declare.specs import UnknownValue as UnknownValue
from pipeflow.declare.tables import NoTable as NoTable
from pipeflow.declare.tables import SpecColumn as SpecColumn
from pipeflow.declare.tables import argument_column as argument_column
from pipeflow.declare.tables import half_up as half_up
from pipeflow.declare.tables import require as require
from pipeflow.declare.values import READY as READY
from pipeflow.declare.values import OfSample as OfSample
from pipeflow.declare.values import check_finite as check_finite
from pipeflow.declare.values import column_values as column_values
from pipeflow.declare.values import convert as convert
from pipeflow.declare.values import describe_kind as describe_kind
from pipeflow.declare.values import from_sample as from_sample
from pipeflow.declare.values import refused as refused
