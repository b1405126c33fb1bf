package build

// Known are the version and the commit that a program was built from; (devel) and nothing where it does not know its own.
func Known() (version, commit string) { return known() }
