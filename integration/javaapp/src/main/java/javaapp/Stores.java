package javaapp;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** The application's stores. All but one are fed by topic APP-in, whose keys and values are strings. */
final class Stores {
  private static final Serde<String> TEXT = Serdes.String();
  private static final Serde<Long> NUMBER = Serdes.Long();

  private Stores() {}

  static StreamsBuilder topology(String which, String app, Map<String, IqQuery.Store> stores) {
    StreamsBuilder b = new StreamsBuilder();
    String in = app + "-in";
    KStream<String, String> events = b.stream(in, Consumed.with(TEXT, TEXT));
    KGroupedStream<String, String> byKey = events.groupByKey(Grouped.with(TEXT, TEXT));

    byKey.count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts").withKeySerde(TEXT).withValueSerde(NUMBER));
    stores.put("counts", new IqQuery.Store(IqQuery.Kind.KEY_VALUE, in, TEXT, NUMBER));

    byKey.windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(60), Duration.ofMinutes(1)))
        .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("win").withKeySerde(TEXT).withValueSerde(NUMBER).withRetention(Duration.ofMinutes(20)));
    stores.put("win", new IqQuery.Store(IqQuery.Kind.WINDOW, in, TEXT, NUMBER));
    if (which.equals("shared")) {
      return b;
    }

    byKey.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(30), Duration.ofMinutes(1)))
        .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("sess").withKeySerde(TEXT).withValueSerde(NUMBER).withRetention(Duration.ofMinutes(20)));
    stores.put("sess", new IqQuery.Store(IqQuery.Kind.SESSION, in, TEXT, NUMBER));

    events.toTable(Materialized.<String, String>as(org.apache.kafka.streams.state.Stores.persistentVersionedKeyValueStore("ver", Duration.ofMinutes(10)))
        .withKeySerde(TEXT).withValueSerde(TEXT));
    stores.put("ver", new IqQuery.Store(IqQuery.Kind.VERSIONED, in, TEXT, TEXT));

    // A plain key-value store of the Processor API: it has no timestamps, and deletes.
    b.addStateStore(org.apache.kafka.streams.state.Stores.keyValueStoreBuilder(
        org.apache.kafka.streams.state.Stores.persistentKeyValueStore("plain"), TEXT, TEXT));
    events.process(() -> new Last(), "plain");
    stores.put("plain", new IqQuery.Store(IqQuery.Kind.KEY_VALUE, in, TEXT, TEXT));

    // A table whose changelog is its source topic (topology.optimization).
    String users = app + "-users";
    b.table(users, Consumed.with(TEXT, TEXT), Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("tab").withKeySerde(TEXT).withValueSerde(TEXT));
    stores.put("tab", new IqQuery.Store(IqQuery.Kind.KEY_VALUE, users, TEXT, TEXT));
    return b;
  }

  /** Keeps the last value of each key; one that begins with "-" deletes it. */
  private static final class Last extends ContextualProcessor<String, String, Void, Void> {
    private KeyValueStore<String, String> store;

    @Override
    public void init(org.apache.kafka.streams.processor.api.ProcessorContext<Void, Void> context) {
      super.init(context);
      store = context.getStateStore("plain");
    }

    @Override
    public void process(Record<String, String> r) {
      if (r.value().startsWith("-")) {
        store.delete(r.key());
      } else {
        store.put(r.key(), r.value());
      }
    }
  }
}
