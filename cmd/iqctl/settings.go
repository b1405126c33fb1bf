package main

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/iqgate/iqgate/cmd/internal/config"
	"github.com/iqgate/iqgate/cmd/internal/secure"
)

// settings are what flags and environment say, for all commands.
type settings struct {
	routers      []string
	output       string
	timeout      time.Duration
	timeoutGiven bool // by somebody, so that streams heed it too
	links        links
	brokers      []string
	kafka        secure.Kafka

	program *config.Program
	loaded  *config.Loaded
	values  []*settingFlag
}

// The groups of settings, by their place in the program.
const (
	groupCommon = iota
	groupLinks
	groupKafka
)

// declare declares every setting.
func (s *settings) declare() {
	s.program = &config.Program{
		Name: "iqctl",
		Groups: []config.Group{
			groupCommon: {Title: "Whom to ask, and how to print", Settings: []config.Setting{
				config.List("router", "", "HOST:PORT", &s.routers, "routers or nodes to ask").Checked(checkTarget).From(defaultRouter),
				config.Text("output", "", "FORM", "table", &s.output, "how to print: table, json, or, where values are read, raw: their bytes alone"),
				config.Duration("timeout", "", &s.timeout, "5s", 0, 0,
					"how long a command may take, on top of --wait; scan, count, watch, top and drain take what they need unless it is given"),
			}},
			groupLinks: {Title: "TLS, and who asks", Settings: s.links.settings()},
			groupKafka: {Title: "Kafka, for import-check", Settings: append([]config.Setting{
				config.List("brokers", "", "HOST:PORT", &s.brokers, "Kafka's bootstrap addresses").Checked(checkTarget),
			}, s.kafka.Settings()...)},
		},
		Check: func() error { return errors.Join(s.links.check(), s.kafka.Check()) },
	}
}

// A settingFlag is the flag of a setting. Its value is taken at once, so that a wrong command line is already reported in the
// form that --output asks for; load takes all again, with the environment, and judges them.
type settingFlag struct {
	*config.Setting
	text  string
	given bool
}

func (f *settingFlag) String() string { return f.text }

// Type stands for the value in the help.
func (f *settingFlag) Type() string {
	if f.Kind == config.KindSwitch {
		return "bool" // for which the help shows nothing
	}
	return f.Value
}

func (f *settingFlag) Set(text string) error {
	f.text, f.given = text, true
	_ = f.Setting.Set(text)
	return nil
}

// flags adds the flags of a group.
func (a *app) flags(to *pflag.FlagSet, group int) {
	shorthands := map[string]string{"output": "o"}
	all := a.program.Groups[group].Settings
	for i := range all {
		s := &all[i]
		if s.Kind == config.KindSecret {
			continue
		}
		f := &settingFlag{Setting: s}
		a.values = append(a.values, f)
		help := s.Help
		if s.Default != "" && s.Kind != config.KindSwitch {
			help += " (default " + s.Default + ")"
		}
		flag := to.VarPF(f, s.Name, shorthands[s.Name], help)
		if s.Kind == config.KindSwitch {
			flag.NoOptDefVal = "true"
		}
	}
}

// load takes the settings from the flags of a command, else the environment.
func (a *app) load(cmd *cobra.Command) error {
	given := make(map[string]string)
	for _, f := range a.values {
		if f.given {
			given[f.Name] = f.text
		}
	}
	var env []string
	for _, g := range a.program.Groups {
		for i := range g.Settings {
			name := a.program.Variable(&g.Settings[i])
			if value := a.getenv(name); value != "" {
				env = append(env, name+"="+value)
			}
		}
	}
	loaded, err := a.program.Resolve(given, env)
	if faults, ok := errors.AsType[*config.FaultsError](err); ok {
		return usage(cmd, errors.New(strings.Join(faults.Faults, "; ")))
	} else if err != nil {
		return err
	}
	a.loaded = loaded
	for _, v := range loaded.Values {
		if v.Setting.Name == "timeout" {
			a.timeoutGiven = v.Origin != ""
		}
	}
	return nil
}

func newConfigCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "config",
		Short: "Show the settings of iqctl",
		Args:  noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(&cobra.Command{
		Use:   "print",
		Short: "Print each setting and where its value came from",
		Long: `print shows whom iqctl would ask, how it would print and show itself, and what import-check would use for Kafka: each
setting with the flag or the environment variable that it came from. Secrets are not shown.`,
		Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error { return a.printConfig() },
	})
	return root
}

// settingJSON is a setting as config print tells it.
type settingJSON struct {
	Setting  string  `json:"setting"`
	Variable string  `json:"variable"`
	Value    *string `json:"value"`  // null where there is none, and for a secret
	Origin   string  `json:"origin"` // the flag or variable; "default"
	Secret   bool    `json:"secret,omitempty"`
}

func (a *app) printConfig() error {
	if !a.json() {
		_, err := io.WriteString(a.out, a.loaded.Print())
		return err
	}
	all := []settingJSON{}
	for _, v := range a.loaded.Values {
		s := settingJSON{Setting: v.Setting.Name, Variable: a.program.Variable(v.Setting), Origin: "default", Secret: v.Setting.Kind == config.KindSecret}
		if v.Origin != "" {
			s.Origin = v.Origin
		}
		if v.Text != "" {
			s.Value = &v.Text
		}
		all = append(all, s)
	}
	return printJSON(a.out, map[string]any{"settings": all})
}
