// Command vectors writes the partitions that Sarama's own partitioners choose for the keys of a table of vectors:
//
//	cd tools/vectors && go run . <../../partitioner/testdata/murmur2.tsv >../../partitioner/testdata/sarama.tsv
//
// It is a module of its own, so that Sarama is a dependency neither of the product nor of the tools that check it.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/IBM/sarama"
)

// counts are the numbers of partitions; the last one shows nearly all of the hash.
var counts = []int32{1, 3, 7, 12, 50, 100, 1<<31 - 1}

// partitioners are Sarama's, by the names that package partitioner gives them.
var partitioners = []struct {
	name string
	make sarama.PartitionerConstructor
}{
	{"fnv1a", sarama.NewHashPartitioner},
	{"crc32", sarama.NewConsistentCRCHashPartitioner},
	{"murmur2", sarama.NewMurmur2Partitioner},
}

func main() {
	if err := write(os.Stdout, os.Stdin); err != nil {
		log.Fatal(err)
	}
}

// write reads a table whose first column is a key in hexadecimal digits, and a header.
func write(out io.Writer, in io.Reader) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "# What the partitioners of github.com/IBM/sarama v1.61.1 answer: key in hex, partitioner, then a partition for each count.")
	fmt.Fprintln(w, "# Written by: cd tools/vectors && go run . <../../partitioner/testdata/murmur2.tsv >../../partitioner/testdata/sarama.tsv")
	fmt.Fprint(w, "key_hex\tpartitioner")
	for _, n := range counts {
		fmt.Fprintf(w, "\tp%d", n)
	}
	fmt.Fprintln(w)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	lines.Scan() // the header
	for lines.Scan() {
		field, _, _ := strings.Cut(lines.Text(), "\t")
		key, err := hex.DecodeString(field)
		if err != nil {
			return fmt.Errorf("key %q: %w", field, err)
		}
		for _, p := range partitioners {
			fmt.Fprintf(w, "%x\t%s", key, p.name)
			for _, n := range counts {
				// Not nil, which is no key; the empty encoder is the empty key.
				got, err := p.make("t").Partition(&sarama.ProducerMessage{Key: sarama.ByteEncoder(key)}, n)
				if err != nil {
					return fmt.Errorf("%s of %x: %w", p.name, key, err)
				}
				fmt.Fprintf(w, "\t%d", got)
			}
			fmt.Fprintln(w)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return w.Flush()
}
