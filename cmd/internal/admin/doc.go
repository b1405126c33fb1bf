// Package admin is the port by which operators and their tools look after a program, by plain HTTP:
//
//	GET  /metrics       Prometheus' metrics
//	GET  /healthz       200 while the process lives
//	GET  /readyz        200 when it is ready, else 503; JSON says what it waits for and how far its stores are restored
//	GET  /startupz      the same, but 200 for ever once it was ready
//	GET  /loglevel      the log's level
//	PUT  /loglevel      sets it: debug, info, warn or error
//	GET  /debug/pprof/  Go's profiles
//
// The port is off unless it is set, because nothing protects it: it has neither TLS nor a question of who asks, so that a scraper
// and a kubelet need no credentials. Whoever reaches it reads metrics, which name stores and topics, and profiles and traces of the
// process, costs it time with them, and can make its log verbose. Let it listen where operators alone can reach it.
//
// settings.go has the settings; ready.go decides what ready means; server.go answers.
package admin
