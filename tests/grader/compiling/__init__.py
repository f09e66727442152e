"""Problems whose code is compiled before its tests run."""
