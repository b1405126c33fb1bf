package topology

// Reasons under which records are skipped; a processor may use others. A skipped record counts as processed: its offset is
// committed, and nothing else comes of it.
const (
	// SkipNullKey counts records without a key, or whose field that should become the key is missing, null, empty or NA.
	SkipNullKey = "null_key"
	// SkipNullValue counts records without a value where one is needed.
	SkipNullValue = "null_value"
	// SkipMalformed counts records whose value, or key field, is not what its format says.
	SkipMalformed = "malformed"
	// SkipNullField counts records whose aggregated field is missing, null, empty or NA.
	SkipNullField = "null_field"
	// SkipNotANumber counts records whose aggregated field should be a number and is not, or is NaN or infinite.
	SkipNotANumber = "not_a_number"
	// SkipNotAnInteger counts records whose aggregated field is a number with a fraction, or beyond 64 bits, where the
	// aggregate is of type int64.
	SkipNotAnInteger = "not_an_integer"
	// SkipLate counts what came too late, as Kafka Streams' dropped-records metric does: one for each window of a record that
	// was closed already (so one for each record where windows do not overlap; a record of a hopping aggregate may be late
	// for some of its windows and not for others), and one for each version that is older than a versioned table's history.
	SkipLate = "late"
	// SkipTimestamp counts records of windowed aggregates and versioned tables whose timestamp is before 1970 or after the
	// year 100,000,000.
	SkipTimestamp = "timestamp"
	// SkipProcessorError counts records whose processor failed under SkipOnError.
	SkipProcessorError = "processor_error"
)
