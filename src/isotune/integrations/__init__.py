"""An encoder as a part of other libraries: scikit-learn, LangChain and mteb. Each module needs the library it names."""
