// Package fault is the proof that the tests would notice: ten deliberate faults, each at the one place where the product keeps a
// promise.
//
// The product asks the names of this package (`if fault.LagOffByOne { ... }`). Without the build tag `fault` they are constants
// that are false, and the compiler leaves the branches out: a program that is shipped has none of them. With the tag the
// environment variable IQGATE_FAULT says which one is on, and a name that is none ends the process, so that a slip of the
// pen cannot look like a fault that nobody caught.
//
// TestEveryFaultIsCaught (tag `faultproof`, `make faults`) builds the tests with the tag once, sees them pass without a
// fault, and then fail with each, one by one. Who adds a promise adds its fault and names the test that keeps it.
package fault
