package demo

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func defaults() Options {
	return Options{Duration: 30 * time.Second, Kill: killNode, Nodes: 3, Standbys: 1, Kafka: kafkaEmbedded}
}

func TestDefaultsAreGoodOptions(t *testing.T) {
	if err := defaults().check(27004); err != nil {
		t.Fatal(err)
	}
}

func TestEveryBadOptionIsNamedWithItsValue(t *testing.T) {
	for _, c := range []struct {
		set  func(*Options)
		want []string
	}{
		{func(o *Options) { o.Duration = time.Second }, []string{"--duration 1s", "3s", "1h"}},
		{func(o *Options) { o.Duration = -time.Second }, []string{"--duration -1s"}},
		{func(o *Options) { o.Kill = "router" }, []string{`--kill "router"`, "none or node"}},
		{func(o *Options) { o.Nodes = 0 }, []string{"--nodes 0"}},
		{func(o *Options) { o.Nodes = 10 }, []string{"--nodes 10"}},
		{func(o *Options) { o.Standbys = -1 }, []string{"--standbys -1"}},
		{func(o *Options) { o.Rate = -1 }, []string{"--rate -1"}},
		{func(o *Options) { o.Rate = 900 }, []string{"--rate 900", "--duration 30s", "at least 901"}},
		{func(o *Options) { o.Kafka = "" }, []string{`--kafka ""`}},
		{func(o *Options) { o.Kafka = "localhost" }, []string{`--kafka "localhost"`, "host:port"}},
		{func(o *Options) { o.Kafka = "a:1,b" }, []string{`--kafka "a:1,b"`}},
		{func(o *Options) { o.Nodes, o.Kill = 0, "all" }, []string{"--nodes 0", `--kill "all"`}},
	} {
		o := defaults()
		c.set(&o)
		err := o.check(27004)
		if _, ok := errors.AsType[*OptionError](err); !ok {
			t.Errorf("%+v: error %v, want an OptionError", o, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: error %q does not say %q", o, err, want)
			}
		}
	}
}

func TestDefaultRateFillsMostOfTheDuration(t *testing.T) {
	o := defaults()
	for _, o.Duration = range []time.Duration{3 * time.Second, 30 * time.Second, time.Hour} {
		if part := 27004 / o.rate(27004) / o.Duration.Seconds(); part < 0.6 || part > 0.7 {
			t.Errorf("in %s the feed takes %.2f of the time", o.Duration, part)
		}
	}
	if o.Rate = 5000; o.rate(27004) != 5000 {
		t.Errorf("rate %v, want the one that is given", o.rate(27004))
	}
}

func TestNamesOnAUsersKafkaAreTheRunsOwn(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	if n := namesFor(kafkaEmbedded, now); n.application != "flights" || n.yaml() != flightsYAML {
		t.Errorf("names %+v on the embedded Kafka", n)
	}
	a, b := namesFor("kafka:9092", now), namesFor("kafka:9092", now.Add(time.Millisecond))
	if a == b {
		t.Errorf("two runs have the names %+v", a)
	}
	for _, want := range []string{"application: " + a.application + "\n", "topic: " + a.input + "\n", "output: " + a.output + "\n"} {
		if strings.Count(a.yaml(), want) != 1 {
			t.Errorf("the topology does not have %q once:\n%s", want, a.yaml())
		}
	}
	if strings.Count(a.yaml(), "source: "+a.input+"\n") != len(storeNames) {
		t.Errorf("not every store reads %s:\n%s", a.input, a.yaml())
	}
}
