package follow

import (
	"hash/fnv"
	"regexp"
	"strings"
)

// Kafka Streams' names of internal topics (InternalTopologyBuilder, ProcessorStateManager).
const (
	changelogSuffix   = "-changelog"
	repartitionSuffix = "-repartition"
)

// ChangelogOf is the changelog topic of a store of a Kafka Streams application (ProcessorStateManager.storeChangelogTopic).
func ChangelogOf(application, store string) string {
	return application + "-" + store + changelogSuffix
}

// StoreOf is the store whose changelog the topic is by its name; ok is false for one that is no changelog of the
// application.
func StoreOf(application, topic string) (store string, ok bool) {
	name, ok := strings.CutPrefix(topic, application+"-")
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(name, changelogSuffix)
	return name, ok && name != ""
}

// IsInternal says whether a topic is one that Kafka Streams has made for the application.
func IsInternal(application, topic string) bool {
	return strings.HasPrefix(topic, application+"-") &&
		(strings.HasSuffix(topic, changelogSuffix) || strings.HasSuffix(topic, repartitionSuffix))
}

// buffers are the stores of the DSL that nobody can ask in Kafka Streams either, by the names that it gives them.
var buffers = []struct {
	name *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`^KSTREAM-(JOIN|OUTER)(THIS|OTHER|SHARED)-\d{10}(-store|-changelog)?$|-(this|other)-join-store$|-(left|outer)-(this|shared)-join-store$`), "a buffer of a join of streams"},
	{regexp.MustCompile(`^KTABLE-SUPPRESS-STATE-STORE-\d{10}$`), "a buffer of suppress()"},
	{regexp.MustCompile(`-?(KTABLE-)?FK-JOIN-SUBSCRIPTION-(STATE-STORE|REGISTRATION)`), "the subscriptions of a foreign-key join"},
}

// bufferOf says what a store holds by its name where it is one of the DSL's own buffers; else it is empty.
func bufferOf(store string) string {
	for _, b := range buffers {
		if b.name.MatchString(store) {
			return b.what
		}
	}
	return ""
}

// SubtopologyOf numbers a store that is followed: its tasks are the partitions of that number. It depends on the name alone,
// so nodes whose lists of stores differ, in the middle of a change of configuration, mean the same by a task.
func SubtopologyOf(store string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(store)) // never fails
	return int32(h.Sum32() & 0x7fffffff)
}
