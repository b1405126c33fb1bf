package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/metadata"
)

// TestOnlyWhomEveryRouterHasLostIsEvicted reads each case as: the members of the group; what each router says, as
// node@incarnation with ! for an address that refuses; whom node b may evict, and its turn.
func TestOnlyWhomEveryRouterHasLostIsEvicted(t *testing.T) {
	for _, c := range []struct{ why, hosts, said, want string }{
		{"nobody is lost", "a b c", "|", "; turn 1"},
		{"no router is there to say anything", "a b c", "none", "; turn 1"},
		{"both have lost a", "a b c", "a@1|a@1", "a@1; turn 0"},
		{"one of them was refused", "a b c", "a@1|a@1!", "a@1!; turn 0"},
		{"one still hears a: it lives", "a b c", "a@1|", "; turn 0"},
		{"one has heard of a's new process already", "a b c", "a@1|a@2", "; turn 0"},
		{"a lost node that is no member any more", "b c", "a@1|a@1", "; turn 0"},
		{"both others at once", "a b c", "a@1! c@4|a@1 c@4", "a@1! c@4; turn 0"},
		{"a router that thinks itself of b: not for b to do", "a b c", "b@1|b@1", "; turn 1"},
		{"a node behind b is lost, a goes first", "a b c", "c@1|c@1", "c@1; turn 1"},
	} {
		var hosts []metadata.Host
		for h := range strings.FieldsSeq(c.hosts) {
			hosts = append(hosts, metadata.Host{Node: metadata.NodeID(h)})
		}
		var said [][]suspicion
		if c.said != "none" {
			for list := range strings.SplitSeq(c.said, "|") {
				var ss []suspicion
				for f := range strings.FieldsSeq(list) {
					s := suspicion{refused: strings.HasSuffix(f, "!")}
					name, number, _ := strings.Cut(strings.TrimSuffix(f, "!"), "@")
					s.node, s.address = metadata.NodeID(name), name+":7070"
					if _, err := fmt.Sscan(number, &s.incarnation); err != nil {
						t.Fatal(err)
					}
					ss = append(ss, s)
				}
				said = append(said, ss)
			}
		}
		var got []string
		for _, s := range agreed("b", hosts, said) {
			text := fmt.Sprintf("%s@%d", s.node, s.incarnation)
			if s.refused {
				text += "!"
			}
			got = append(got, text)
		}
		text := fmt.Sprintf("%s; turn %d", strings.Join(got, " "), turn("b", hosts, said))
		if text != c.want {
			t.Errorf("%s: %q, want %q", c.why, text, c.want)
		}
	}
}
