// Package iqgate_test holds the rules about the repository as a whole.
package iqgate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/iqgate/iqgate/"

// allowed maps each package to the packages of this module that it may import.
// It is the import diagram of ARCHITECTURE.md in a form that can fail.
var allowed = map[string][]string{
	"fault":       {},
	"metadata":    {},
	"partitioner": {},
	"proto/iq/v1": {},
	"iqerr":       {"proto/iq/v1"},
	"reload":      {},
	"certs":       {"reload"},
	"auth":        {"certs", "iqerr", "proto/iq/v1", "reload"},
	"topology":    {"partitioner"},
	"store":       {},
	"assign":      {"metadata"},
	"tally":       {"iqerr", "metadata", "proto/iq/v1"},
	"kafka":       {"metadata", "tally"},
	"mux":         {"iqerr", "proto/iq/v1"},
	"group":       {"assign", "kafka", "metadata", "tally"},
	"wire":        {"metadata", "proto/iq/v1"},
	"serve":       {"auth", "iqerr", "kafka", "metadata", "mux", "partitioner", "proto/iq/v1", "query", "store", "tally", "topology", "wire"},
	"follow":      {"kafka", "partitioner", "store", "topology"},
	"node":        {"assign", "auth", "follow", "group", "iqerr", "kafka", "metadata", "mux", "partitioner", "proto/iq/v1", "serve", "store", "tally", "topology", "wire"},
	"query":       {"iqerr", "metadata", "proto/iq/v1"},
	"routing":     {"iqerr", "metadata", "partitioner", "proto/iq/v1"},
	"router":      {"auth", "iqerr", "metadata", "mux", "partitioner", "proto/iq/v1", "query", "routing", "tally"},
	"metrics":     {"metadata", "tally"},
	"gateway":     {"auth", "gateway/shape", "iqerr", "proto/iq/v1", "query"},
	"client":      {"iqerr", "metadata", "mux", "partitioner", "proto/iq/v1", "routing"},
	"dashboard":   {"metadata"},

	"gateway/local": {},
	"gateway/shape": {"iqerr", "proto/iq/v1", "topology"},

	// Helpers for tests; no package of the product may import them.
	"auth/authtest":           {},
	"dashboard/dashboardtest": {},
	"store/storetest":         {"store"},
	"topology/topologytest":   {"partitioner", "topology"},
}

// below is the package that any other may import: constants that are false.
const below = "fault"

// confined maps an external import prefix to the only packages that may use it.
var confined = map[string][]string{
	"github.com/dgraph-io/badger/":    {"store"},
	"github.com/dgraph-io/ristretto/": {"store"},
	"github.com/twmb/franz-go/":       {"group", "kafka", "node", "serve"},
	"github.com/google/cel-go/":       {"query"},
	"github.com/go-jose/go-jose/":     {"auth", "auth/authtest"},
	"github.com/prometheus/":          {"metrics"},
	"github.com/chromedp/":            {"dashboard/dashboardtest"},
	"google.golang.org/grpc":          {"node", "serve", "router", "client", "mux", "auth", "certs", "iqerr", "proto/iq/v1", "gateway", "gateway/local"},
}

// pure lists, by path prefix, the code that decides: it may import no third party and nothing of impure,
// and it may not call the functions of package time named in clock.
var (
	pure   = []string{"metadata/", "partitioner/", "routing/decide.go", "routing/plan.go", "auth/access.go", "auth/decide.go", "auth/pattern.go", "node/bootstrap_decide.go", "node/lag.go", "assign/", "dashboard/page.go", "dashboard/detail.go", "dashboard/change.go", "dashboard/restores.go", "dashboard/reads.go"}
	impure = []string{"context", "log/slog", "net", "os", "sync", "math/rand", "math/rand/v2"}
	clock  = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}
	exempt = []string{"cmd", "integration", "bench", "tools"} // may import anything
	fset   = token.NewFileSet()
)

func TestImportDirection(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir // what the go command leaves out too
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		path = filepath.ToSlash(path)
		pkg, _, _ := strings.Cut(path, "/")
		if slices.Contains(exempt, pkg) || !strings.Contains(path, "/") {
			return nil
		}
		pkg = path[:strings.LastIndex(path, "/")]
		rule, known := allowed[pkg]
		if !known {
			t.Errorf("%s: package %s has no line in allowed; add one here and in ARCHITECTURE.md", path, pkg)
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		decides := slices.ContainsFunc(pure, func(p string) bool { return strings.HasPrefix(path, p) })
		if decides {
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, sel.Sel.Name) {
					t.Errorf("%s: code that decides may not read the clock (time.%s); take now time.Time", fset.Position(n.Pos()), sel.Sel.Name)
				}
				return true
			})
		}
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			if own, ok := strings.CutPrefix(imp, module); ok && own != below && !slices.Contains(rule, own) {
				t.Errorf("%s: %s may not import %s", path, pkg, own)
			}
			for prefix, users := range confined {
				if strings.HasPrefix(imp, prefix) && !slices.Contains(users, pkg) {
					t.Errorf("%s: only %v may import %s", path, users, imp)
				}
			}
			first, _, _ := strings.Cut(imp, "/")
			thirdParty := strings.Contains(first, ".") && !strings.HasPrefix(imp, module)
			if decides && (thirdParty || slices.Contains(impure, imp)) {
				t.Errorf("%s: code that decides may not import %s", path, imp)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
