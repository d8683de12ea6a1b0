"""An encoder as a part of scikit-learn, which is installed with isotune."""
