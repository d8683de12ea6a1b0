from .device import DEVICE as DEVICE
from .device import default_device as default_device
from .device import gpu_name as gpu_name
from .types import Precision as Precision
