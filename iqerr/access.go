package iqerr

import "strconv"

// UnauthenticatedError says that the server does not know who calls. It never holds anything of the credentials.
type UnauthenticatedError struct {
	// Problem says what is wrong: "no credentials were given", "the token has expired".
	Problem string
}

func (e *UnauthenticatedError) Error() string { return "not authenticated: " + e.Problem }

// Unwrap gives ErrUnauthenticated.
func (e *UnauthenticatedError) Unwrap() error { return ErrUnauthenticated }

func (e *UnauthenticatedError) encode(d *details) { d.put(keyProblem, e.Problem) }

func decodeUnauthenticated(d *details) error {
	return &UnauthenticatedError{Problem: d.get(keyProblem)}
}

// DeniedError says that the caller is known and may not do what it asked for. It tells what the caller has asked for, never a
// key, and not whether what it named exists.
type DeniedError struct {
	// Action is what is not allowed: "read", "watch", "metadata", "control", "report", "peer".
	Action string
	// Store is the store that was named; empty where the action is about no store, or about all of them.
	Store string
	// Problem says more, where there is more to say: "only keys with certain prefixes are allowed".
	Problem string
}

func (e *DeniedError) Error() string {
	text := "not allowed: " + e.Action
	if e.Store != "" {
		text += " of store " + strconv.Quote(e.Store)
	}
	if e.Problem != "" {
		text += ": " + e.Problem
	}
	return text
}

// Unwrap gives ErrPermissionDenied.
func (e *DeniedError) Unwrap() error { return ErrPermissionDenied }

func (e *DeniedError) encode(d *details) {
	d.put(keyAction, e.Action)
	d.put(keyStore, e.Store)
	d.put(keyProblem, e.Problem)
}

func decodeDenied(d *details) error {
	return &DeniedError{Action: d.get(keyAction), Store: d.get(keyStore), Problem: d.get(keyProblem)}
}
