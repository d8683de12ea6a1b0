from .classifier import Classifier as Classifier
from .classifier_head import ClassifierHead as ClassifierHead
from .encoder import Encoder as Encoder
from .fingerprint import short_hash as short_hash
from .format.pretrained import local_folder as local_folder
from .options import EncoderOptions as EncoderOptions
from .pooling import Pooling as Pooling
