package store

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// ID is the identity of a store partition. It is kept inside the database and compared each time that is opened,
// so that a directory that was moved, copied or left over is never taken for another store's.
type ID struct {
	Application string   `json:"application"`     // the application, and its consumer group
	Store       string   `json:"store"`           // name of the store
	Partition   int32    `json:"partition"`       // partition of the store and of its changelog
	Changelog   string   `json:"changelog"`       // name of the changelog topic
	TopicID     [16]byte `json:"topic_id"`        // id of the changelog topic (KIP-516); zero is unknown and then not compared
	Schema      Schema   `json:"schema,omitzero"` // kind and retention; zero is a key-value store
}

// Validate reports every bad field.
func (id ID) Validate() error {
	var errs []error
	if id.Store == "" {
		errs = append(errs, errors.New("ID.Store is empty"))
	}
	if id.Partition < 0 {
		errs = append(errs, fmt.Errorf("ID.Partition is %d, want 0 or more", id.Partition))
	}
	return errors.Join(append(errs, id.Schema.Validate())...)
}

// difference returns the first field in which two identities differ, or an empty name. An unknown topic id
// differs from none.
func (id ID) difference(other ID) (field, mine, others string) {
	switch {
	case id.Application != other.Application:
		return "application", strconv.Quote(id.Application), strconv.Quote(other.Application)
	case id.Store != other.Store:
		return "store", strconv.Quote(id.Store), strconv.Quote(other.Store)
	case id.Partition != other.Partition:
		return "partition", strconv.Itoa(int(id.Partition)), strconv.Itoa(int(other.Partition))
	case id.Changelog != other.Changelog:
		return "changelog", strconv.Quote(id.Changelog), strconv.Quote(other.Changelog)
	case id.TopicID != other.TopicID && id.TopicID != [16]byte{} && other.TopicID != [16]byte{}:
		return "topic id", hex.EncodeToString(id.TopicID[:]), hex.EncodeToString(other.TopicID[:])
	case id.Schema != other.Schema:
		return "kind", id.Schema.String(), other.Schema.String()
	}
	return "", "", ""
}

// check compares the identity found in a database with the one asked for and returns the one to go on with:
// a topic id that was unknown until now is taken over.
func (id ID) check(have ID) (ID, error) {
	if field, _, _ := id.difference(have); field != "" {
		return ID{}, &IdentityError{Want: id, Have: have}
	}
	if id.TopicID == [16]byte{} {
		id.TopicID = have.TopicID
	}
	return id, nil
}

func encodeID(id ID) ([]byte, error) {
	return json.Marshal(id)
}

func decodeID(b []byte) (ID, error) {
	var id ID
	if err := json.Unmarshal(b, &id); err != nil {
		return ID{}, corruptf("identity entry: %w", err)
	}
	return id, nil
}
