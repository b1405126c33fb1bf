// Package shape is what JSON says of replicas, stores, nodes, rows and reads: the same names wherever a program prints them.
// Numbers are numbers; durations are milliseconds and their names say so, times are milliseconds since the epoch; what is not
// known is null. Users depend on the names: add, never change.
// It also reads keys, values and times as users write them.
//
// The tags doc and enum describe a field for the OpenAPI document, which is made of these types.
package shape
