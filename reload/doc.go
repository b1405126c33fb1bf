// Package reload keeps a value that is read from files, and reads it again when they change.
//
//   - A Value is made of whole files by a pure function. Whoever needs it loads it without a lock; the pointer that it gets
//     is one edition, never changed afterwards, and another pointer means another edition.
//   - Check reads the files and, if their bytes differ from those read last, makes a new edition. Files that cannot be read,
//     or make no value, leave the edition that is there.
//   - Follow checks values again and again and logs what changed and what is wrong, each cause once.
//
// Files are compared by their bytes and not by their times: a secret that Kubernetes mounts changes by a symbolic link, and
// a certificate and its key, written one after the other, make no pair for a moment. That moment is an edition refused and
// another one made at the next look.
//
// The package imports nothing of this module.
package reload
