// Package dashboardtest has a real browser look at the dashboard. It is built with the tag browser alone, because not every machine
// has one.
package dashboardtest
