// Package topology is what users of the system write against.
package topology
