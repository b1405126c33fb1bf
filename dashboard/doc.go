// Package dashboard is the router's web page: who holds what, how far behind, what reads meet, and why a read was sent where
// it was. The page is plain HTML, CSS and JavaScript modules, embedded as they are; it asks nothing of another origin.
//
// # How the page learns
//
//  1. page.go makes a Page of a metadata.View: a pure function of (view, now). Lags and ages are rounded up to what the page
//     shows of them, so that a figure that nobody could see move is no change, and none looks smaller than it is.
//  2. restores.go keeps where each restoring replica was a moment ago and says when it will have caught up; reads.go makes
//     rates of the router's counts.
//  3. change.go says what one Page tells otherwise than an older one.
//  4. editions.go makes the pages, for all who look, and none while nobody does.
//  5. stream.go sends a reader one snapshot and then changes, as Server-Sent Events. What a slow reader has not seen is the
//     difference between the Page that it has and the newest, so nothing piles up.
//
// handler.go has the other requests: the page's files, and one partition in full (detail.go). The page looks keys up by the JSON
// gateway of the same listener, whose answers explain themselves.
//
// # Bounds
//
// Streams: MaxStreams. Partitions of a page: maxPartitions. Pages: two an Interval. Reads that are listed: maxListed. A write that a reader does not take:
// writeTimeout. Restores that are listed: maxRestores.
//
// # Who may see what
//
// Config.Authorize judges every request, and a stream again before each event. What is seen is what WatchMetadata tells; of
// reads, no keys. The page's own files hold nothing of the application and are for everybody who can connect.
//
// # What it leaves to others
//
// It imports metadata alone. Who mounts it hands it the view, the counts and the guard by Config.
package dashboard
