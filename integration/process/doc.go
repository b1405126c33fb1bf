// Package process builds the programs of this module and runs them as processes of a test's own, to be killed, paused and
// continued.
//
// Invariants: a process is ended by its id alone. On Linux none outlives the test binary, however that dies. Kill and Stop
// return after the process has ended. All that a process prints goes to one file, over its restarts.
//
// The package runs on Unix. What a test makes of the processes is left to the test.
package process
