package shape

// Row is one entry: a line of a scan, or an event of a watch.
type Row struct {
	Key         any    `json:"key"`
	Value       any    `json:"value,omitempty"`
	ValueFormat string `json:"value_format,omitempty" doc:"the format that value is in"`
	Timestamp   *int64 `json:"timestamp_ms,omitempty"`
	Partition   int32  `json:"partition"`
	Start       *int64 `json:"start_ms,omitempty" doc:"of a window or session, or when the version began"`
	End         *int64 `json:"end_ms,omitempty" doc:"of a window (exclusive) or session (included), or when the version ended (exclusive)"`
	Deleted     bool   `json:"deleted,omitempty" doc:"the version is a deletion"`
}

// ScanEnd is how a scan ended that has given all that was asked for.
type ScanEnd struct {
	Rows      int64   `json:"rows"`
	PageToken *string `json:"page_token" doc:"where to go on after a limit; null when nothing is left"`
	Reads     []Read  `json:"reads" doc:"who served each partition; again where another replica went on"`
}
