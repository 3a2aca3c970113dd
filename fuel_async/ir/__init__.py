"""What is computed: graphs, tensors, ops, dtypes, shapes, layouts, and the plain values that all layers
share.

Pure: no threads, clocks, files or devices. Other packages import from here, not from the modules inside.
"""

from fuel_async.ir.device import CPU_DEVICE as CPU_DEVICE
from fuel_async.ir.device import BackendId as BackendId
from fuel_async.ir.device import DeviceLocation as DeviceLocation
from fuel_async.ir.device import SubstrateClass as SubstrateClass
from fuel_async.ir.dtype import DType as DType
from fuel_async.ir.dtype import promote as promote
from fuel_async.ir.frozen import Breathe as Breathe
from fuel_async.ir.frozen import FrozenGraph as FrozenGraph
from fuel_async.ir.frozen import Snapshot as Snapshot
from fuel_async.ir.frozen import freeze as freeze
from fuel_async.ir.frozen import no_breath as no_breath
from fuel_async.ir.functions import concat as concat
from fuel_async.ir.functions import matmul as matmul
from fuel_async.ir.functions import maximum as maximum
from fuel_async.ir.functions import minimum as minimum
from fuel_async.ir.functions import permute_dims as permute_dims
from fuel_async.ir.functions import take as take
from fuel_async.ir.functions import where as where
from fuel_async.ir.graph import Graph as Graph
from fuel_async.ir.layout import Layout as Layout
from fuel_async.ir.op import Attrs as Attrs
from fuel_async.ir.op import Form as Form
from fuel_async.ir.op import OpSpec as OpSpec
from fuel_async.ir.op import TensorType as TensorType
from fuel_async.ir.opkind import OpKind as OpKind
from fuel_async.ir.ops import BY_NAME as BY_NAME
from fuel_async.ir.ops import OPS as OPS
from fuel_async.ir.symbol import Dim as Dim
from fuel_async.ir.symbol import Shape as Shape
from fuel_async.ir.symbol import Symbolic as Symbolic
from fuel_async.ir.symbol import UnboundSymbol as UnboundSymbol
from fuel_async.ir.symbol import bind as bind
from fuel_async.ir.symbol import symbol as symbol
from fuel_async.ir.tensor import Tensor as Tensor
from fuel_async.ir.text import from_text as from_text
from fuel_async.ir.text import to_text as to_text
from fuel_async.ir.values import CostEstimate as CostEstimate
from fuel_async.ir.values import PrecisionGuarantee as PrecisionGuarantee
from fuel_async.ir.values import SizeClass as SizeClass
from fuel_async.ir.verify import verify as verify
