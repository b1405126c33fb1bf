package store

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// markOf is a file as it is now.
func markOf(path string) (fileMark, error) {
	f, err := os.Open(path) //nolint:gosec // the caller names the directory
	if err != nil {
		return fileMark{}, err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return fileMark{}, err
	}
	end := make([]byte, min(info.Size(), endBytes))
	if _, err := f.ReadAt(end, info.Size()-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return fileMark{}, fmt.Errorf("read the end of %s: %w", path, err)
	}
	return fileMark{Size: info.Size(), Time: info.ModTime().UnixNano(), End: crc32.Checksum(end, y.CastagnoliCrcTable)}, nil
}

// lengthBytes is the size of Badger's length fields, which are big-endian.
const lengthBytes = 4

// checkTable reads a table of the database: its index, and its blocks unless they are known to be sound. took is called
// with the bytes of each block that was read; nil for none. The format is Badger's (table/builder.go): blocks, index,
// length of the index, checksum of the index, length of that; a block ends with its checksum and the length of that.
func checkTable(path string, indexOnly bool, took func(bytes int) error) (err error) {
	defer func() {
		if p := recover(); p != nil { // of an index whose offsets lead nowhere: its reader has no errors
			err = corruptf("table %s: index: %v", filepath.Base(path), p)
		}
	}()
	f, err := os.Open(path) //nolint:gosec // the caller names the directory
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	index, err := tableIndex(f, info.Size())
	if err != nil {
		return damaged(name, err)
	}
	if indexOnly {
		return nil
	}
	var at fb.BlockOffset
	var buf []byte
	for i := range index.OffsetsLength() {
		if !index.Offsets(&at, i) {
			return corruptf("table %s: its index has no block %d", name, i)
		}
		if int64(at.Offset())+int64(at.Len()) > info.Size() {
			return corruptf("table %s: block %d lies beyond its end", name, i)
		}
		buf = slices.Grow(buf[:0], int(at.Len()))[:at.Len()]
		if _, err := f.ReadAt(buf, int64(at.Offset())); err != nil {
			return damaged(name, fmt.Errorf("block %d: %w", i, err))
		}
		if err := checkSummed(buf); err != nil {
			return corruptf("table %s: block %d: %w", name, i, err)
		}
		if took != nil {
			if err := took(len(buf)); err != nil {
				return err
			}
		}
	}
	return nil
}

// damaged tells a file that cannot be read from one that says the wrong thing: both are of no use.
func damaged(name string, err error) error {
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	return corruptf("table %s: %w", name, err)
}

// tableIndex reads a table's index and checks it.
func tableIndex(f io.ReaderAt, size int64) (*fb.TableIndex, error) {
	sum, at, err := lastField(f, size)
	if err != nil {
		return nil, fmt.Errorf("checksum: %w", err)
	}
	index, _, err := lastField(f, at)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	if err := checkSum(index, sum); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	root := fb.GetRootAsTableIndex(index, 0)
	if root.OffsetsLength() == 0 {
		return nil, errors.New("index: it has no blocks")
	}
	return root, nil
}

// lastField reads the field that ends at an offset with its own length, and says where it begins.
func lastField(f io.ReaderAt, end int64) (field []byte, begin int64, err error) {
	if end < lengthBytes {
		return nil, 0, io.ErrUnexpectedEOF
	}
	var length [lengthBytes]byte
	if _, err := f.ReadAt(length[:], end-lengthBytes); err != nil {
		return nil, 0, err
	}
	n := int64(binary.BigEndian.Uint32(length[:]))
	if begin = end - lengthBytes - n; begin < 0 {
		return nil, 0, fmt.Errorf("%d bytes do not fit in", n)
	}
	field = make([]byte, n)
	_, err = f.ReadAt(field, begin)
	return field, begin, err
}

// checkSummed checks bytes that end with their checksum and its length.
func checkSummed(b []byte) error {
	if len(b) < lengthBytes {
		return io.ErrUnexpectedEOF
	}
	n, rest := binary.BigEndian.Uint32(b[len(b)-lengthBytes:]), b[:len(b)-lengthBytes]
	if int64(n) > int64(len(rest)) {
		return fmt.Errorf("a checksum of %d bytes does not fit in", n)
	}
	return checkSum(rest[:len(rest)-int(n)], rest[len(rest)-int(n):])
}

func checkSum(b, encoded []byte) error {
	var sum pb.Checksum
	if err := proto.Unmarshal(encoded, &sum); err != nil {
		return fmt.Errorf("checksum: %w", err)
	}
	if sum.GetAlgo() != pb.Checksum_CRC32C && sum.GetAlgo() != pb.Checksum_XXHash64 {
		return fmt.Errorf("checksum of the unknown kind %d", sum.GetAlgo())
	}
	return y.VerifyChecksum(b, &sum)
}

// checkLogs reads the logs of all memtables but the newest, which must be whole.
func checkLogs(folder string) error {
	logs, err := filepath.Glob(filepath.Join(folder, "*"+logSuffix))
	if err != nil || len(logs) == 0 {
		return err
	}
	slices.SortFunc(logs, func(a, b string) int { // by number; those of more than five digits are longer
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	for _, path := range logs[:len(logs)-1] {
		f, err := os.Open(path) //nolint:gosec // one of the store's own
		if err != nil {
			return err
		}
		err = checkLog(f)
		_ = f.Close()
		if err != nil {
			return corruptf("log %s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

// Badger's log format (memtable.go, structs.go): a header of the file; entries of meta, user meta, lengths of key and
// value and an expiry as uvarints, key, value, and a checksum of all that; zeros.
const (
	logHeaderBytes = 20
	logTxn         = 1 << 6 // meta of an entry of a transaction
	logTxnEnd      = 1 << 7 // meta of what ends a transaction
	maxLogKey      = 1 << 16
)

// checkLog reads a log to its end. It is an error when an entry is damaged, a transaction has no end, or anything but zeros
// follows.
func checkLog(f io.Reader) error {
	l := &logReader{r: bufio.NewReaderSize(f, 1<<20)}
	if _, err := l.r.Discard(logHeaderBytes); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	open := false
	for n := 0; ; n++ {
		meta, end, err := l.entry()
		switch {
		case err != nil:
			return fmt.Errorf("entry %d: %w", n, err)
		case end && open:
			return fmt.Errorf("entry %d: the transaction before it has no end", n)
		case end:
			return l.zeros()
		}
		open = meta&logTxnEnd == 0 && (open || meta&logTxn != 0)
	}
}

// logReader reads a log and sums up what it has read.
type logReader struct {
	r   *bufio.Reader
	sum uint32
}

// ReadByte implements io.ByteReader.
func (l *logReader) ReadByte() (byte, error) {
	b, err := l.r.ReadByte()
	if err == nil {
		l.sum = crc32.Update(l.sum, y.CastagnoliCrcTable, []byte{b})
	}
	return b, err
}

// entry reads one entry; end says that none is left.
func (l *logReader) entry() (meta byte, end bool, err error) {
	l.sum = 0
	if meta, err = l.ReadByte(); errors.Is(err, io.EOF) {
		return 0, true, nil
	}
	fields := [4]uint64{}
	if err == nil {
		_, err = l.ReadByte()
	}
	for i := 0; i < 3 && err == nil; i++ {
		fields[i], err = binary.ReadUvarint(l)
	}
	if err != nil {
		return 0, false, unexpected(err)
	}
	if fields[0] == 0 {
		if meta != 0 || fields[1] != 0 {
			return 0, false, errors.New("it has no key")
		}
		return 0, true, nil
	}
	if fields[0] > maxLogKey || fields[1] > valueLogFileBytes {
		return 0, false, fmt.Errorf("key of %d bytes, value of %d", fields[0], fields[1])
	}
	body := io.TeeReader(io.LimitReader(l.r, int64(fields[0]+fields[1])), (*logSum)(l))
	if n, err := io.Copy(io.Discard, body); err != nil || n != int64(fields[0]+fields[1]) {
		return 0, false, unexpected(err)
	}
	var sum [crc32.Size]byte
	if _, err := io.ReadFull(l.r, sum[:]); err != nil {
		return 0, false, unexpected(err)
	}
	if binary.BigEndian.Uint32(sum[:]) != l.sum {
		return 0, false, y.ErrChecksumMismatch
	}
	return meta, false, nil
}

// logSum adds what is written to the sum.
type logSum logReader

// Write implements io.Writer.
func (s *logSum) Write(b []byte) (int, error) {
	s.sum = crc32.Update(s.sum, y.CastagnoliCrcTable, b)
	return len(b), nil
}

func unexpected(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// zeros says whether nothing else follows.
func (l *logReader) zeros() error {
	for {
		b, err := l.r.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if b != 0 {
			return errors.New("something follows its end")
		}
	}
}
