// Package deploy has the checks of what stands in deploy/ and of the Dockerfile, as far as they need no cluster:
//
//   - programs_test.go: every setting that is named anywhere exists in the programs, and the configurations given there are
//     accepted by them.
//   - kubernetes_test.go: the manifests decode strictly into Kubernetes' own types; names, ports, selectors, volumes and times
//     fit one another; pods meet the restricted Pod Security Standard.
//   - chart_test.go: the chart passes Helm's lint, renders to the same objects as the manifests, and its schema refuses what is wrong.
//   - compose_test.go: the compose file loads as Docker Compose loads it, and its parts fit one another.
//   - systemd_test.go: systemd itself verifies the units; exit codes and times fit the programs.
//
// The folder release writes releases, and its tests read one back. All of it is a Go module of its own, so that the libraries
// of Kubernetes and Helm never enter the product's.
package deploy
