// Package maven builds the Java programs that tests and measurements run, once, into the user's cache folder: with Maven and
// the newest JDK that is found.
package maven
