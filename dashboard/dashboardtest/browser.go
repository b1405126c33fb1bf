//go:build browser

package dashboardtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience bounds every wait for the page.
const patience = 30 * time.Second

// programs are the names that Chromium goes by.
var programs = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell"}

// Find is the path of a Chromium: that of the environment's CHROMIUM, or the first in the path. Without one it skips the test,
// or fails it when BROWSER_REQUIRED is 1.
func Find(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const missing = "no Chromium: install one (Debian: apt-get install chromium), or name it by CHROMIUM"
	if os.Getenv("BROWSER_REQUIRED") == "1" {
		tb.Fatal(missing)
	}
	tb.Skip(missing)
	return ""
}

// Page is one tab of a browser of its own.
type Page struct {
	tb     testing.TB
	ctx    context.Context //nolint:containedctx // chromedp keeps the browser in it
	origin string

	mu       sync.Mutex
	problems []string
	strays   []string
	expected bool // problems of the connection are
}

// Open starts a browser and opens a page at an address in a window of that size. It is closed at the test's end.
func Open(tb testing.TB, address string, width, height int64) *Page {
	tb.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(Find(tb)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(int(width), int(height)),
		chromedp.UserDataDir(tb.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("font-render-hinting", "none"),
	)
	allocator, endAllocator := chromedp.NewExecAllocator(tb.Context(), options...)
	tb.Cleanup(endAllocator)
	ctx, end := chromedp.NewContext(allocator)
	tb.Cleanup(end)
	at, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Page{tb: tb, ctx: ctx, origin: at.Scheme + "://" + at.Host}
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		tb.Fatal(err)
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	call(p, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	call(p, runtime.Enable, cdp.Empty{})
	p.Resize(width, height)
	p.Do(chromedp.Navigate(address))
	return p
}

// call sends a command of the browser's protocol.
func call[P, R any](p *Page, command cdp.Command[P, R], params P) R {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	r, err := chromedp.Call(ctx, command, params)
	if err != nil {
		p.tb.Fatalf("%s: %v", command.Method, err)
	}
	return r
}

// listen takes note of what no page may do.
func (p *Page) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	problem := func(format string, args ...any) {
		if !p.expected {
			p.problems = append(p.problems, fmt.Sprintf(format, args...))
		}
	}
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme+"://"+u.Host != p.origin {
			p.strays = append(p.strays, e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		problem("exception: %+v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if kind := string(e.Type); kind == "error" || kind == "warning" {
			problem("console: %+v", e.Args)
		}
	case *log.EventEntryAdded:
		if level := string(e.Entry.Level); level == "error" || level == "warning" {
			problem("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	}
}

// ExpectTrouble has errors of the page pass from now on, or not: a connection that breaks is one.
func (p *Page) ExpectTrouble(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = is
}

// Forgive forgets the errors of the page so far: those of its first requests come before anything can be expected.
func (p *Page) Forgive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = nil
}

// CheckQuiet fails the test for an error or warning of the console, and for a request to another origin.
func (p *Page) CheckQuiet() {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.problems {
		p.tb.Errorf("the page complains: %s", text)
	}
	for _, address := range p.strays {
		p.tb.Errorf("the page asked for %s", address)
	}
}

// Do does actions, within patience.
func (p *Page) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.tb.Helper()
	run(p, chromedp.Steps(actions...))
}

// run does one action, within patience, and gives what it gives.
func run[T any](p *Page, action chromedp.Action[T]) T {
	p.tb.Helper()
	v, err := try(p, action)
	if err != nil {
		p.tb.Fatal(err)
	}
	return v
}

func try[T any](p *Page, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// Eval gives what an expression is on the page.
func Eval[T any](p *Page, expression string) T {
	p.tb.Helper()
	v, err := try(p, chromedp.Evaluate[T](expression))
	if err != nil {
		p.tb.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Until waits until an expression is true on the page.
func (p *Page) Until(expression string) {
	p.tb.Helper()
	_, err := try(p, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(patience-time.Second)))
	if err != nil {
		body := Eval[string](p, "document.body.innerText")
		p.tb.Fatalf("it never became true: %s (%v); the page says\n%s", expression, err, body)
	}
}

// Key presses a key of package kb, or types a text.
func (p *Page) Key(keys string, modifiers ...chromedp.KeyOption) {
	p.tb.Helper()
	p.Do(chromedp.KeyEvent(keys, modifiers...))
}

// TabTo presses Tab until an expression is true of the element that has the focus, e.
func (p *Page) TabTo(expression string) {
	p.tb.Helper()
	const stops = 200
	for range stops {
		p.Key(kb.Tab)
		if Eval[bool](p, "(e => "+expression+")(document.activeElement)") {
			return
		}
	}
	p.tb.Fatalf("%d stops of Tab never came to %s", stops, expression)
}

// Resize changes the size of the window.
func (p *Page) Resize(width, height int64) {
	p.tb.Helper()
	p.Do(chromedp.EmulateViewport(width, height))
}

// Prefer has the system prefer light or dark.
func (p *Page) Prefer(scheme string) {
	p.tb.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// Screenshot writes the page as a PNG into the folder that the environment names by SCREENSHOTS, and does nothing without one.
// whole takes all of it, and not the window alone.
func (p *Page) Screenshot(name string, whole bool) {
	p.tb.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	shoot := chromedp.CaptureScreenshot()
	if whole {
		shoot = chromedp.FullScreenshot(100)
	}
	png := run(p, shoot)
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil { //nolint:gosec // who runs the test names the folder
		p.tb.Fatal(err)
	}
}

// TaskSeconds is the processor's time that the page's main thread has taken in all, whatever else the machine does.
func (p *Page) TaskSeconds() float64 {
	p.tb.Helper()
	for _, m := range call(p, performance.GetMetrics, cdp.Empty{}).Metrics {
		if m.Name == "TaskDuration" {
			return m.Value
		}
	}
	p.tb.Fatal("the browser does not tell TaskDuration")
	return 0
}

// LowContrast lists the visible texts whose contrast on what is below them is less than WCAG 2's AA asks for: 4.5 to 1, or 3 to 1 for
// large ones.
func (p *Page) LowContrast() []string {
	p.tb.Helper()
	return Eval[[]string](p, lowContrast)
}

// Unnamed lists the controls that have no name for those who hear the page.
func (p *Page) Unnamed() []string {
	p.tb.Helper()
	return Eval[[]string](p, unnamed)
}

const lowContrast = `(() => {
	const parse = (text) => {
		const c = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
		return (parse.known ??= new Map()).get(text) ?? (() => {
			c.fillStyle = text; c.fillRect(0, 0, 1, 1);
			const [r, g, b, a] = c.getImageData(0, 0, 1, 1).data;
			const v = [r, g, b, a / 255];
			parse.known.set(text, v);
			return v;
		})();
	};
	const luminance = ([r, g, b]) => {
		const [x, y, z] = [r, g, b].map((v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
		return 0.2126 * x + 0.7152 * y + 0.0722 * z;
	};
	const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
	const ground = (e) => {
		const layers = [];
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c[3] > 0) layers.push(c);
			if (c[3] === 1) break;
		}
		return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
	};
	const bad = new Set();
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n = walker.nextNode(); n; n = walker.nextNode()) {
		const e = n.parentElement;
		if (!n.data.trim() || !e.checkVisibility({ visibilityProperty: true }) || e.closest(".hidden-text, .skip, option, .dim")) continue;
		const style = getComputedStyle(e);
		const below = ground(e);
		let opacity = 1;
		for (let a = e; a; a = a.parentElement) opacity *= Number(getComputedStyle(a).opacity);
		const colour = parse(style.color);
		const text = over([...colour.slice(0, 3), colour[3] * opacity], below);
		const [a, b] = [luminance(text), luminance(below)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		const size = parseFloat(style.fontSize);
		const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
		if (ratio < (large ? 3 : 4.5)) bad.add(e.tagName + "." + e.className + " " + JSON.stringify(n.data.trim().slice(0, 20)) + " " + ratio.toFixed(2));
	}
	return [...bad];
})()`

const unnamed = `[...document.querySelectorAll("button, input, select, [role=gridcell], [role=grid], dialog, svg[role=img], progress")].filter((e) => {
	const by = (e.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join("").trim();
	const name = (e.getAttribute("aria-label") ?? "").trim() || by || [...(e.labels ?? [])].map((l) => l.textContent).join("").trim() || (e.tagName === "BUTTON" ? e.textContent.trim() : "");
	return !name && (e.tagName !== "DIALOG" || e.open);
}).map((e) => e.outerHTML.slice(0, 120))`
