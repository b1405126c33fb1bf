package javaapp;

import java.util.HexFormat;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;

/** What interactive queries say of a store, a line for each key, window, session or version: key, times, value. */
final class Dump {
  private Dump() {}

  static String of(KafkaStreams streams, String name, Map<String, IqQuery.Store> stores) {
    IqQuery.Store s = stores.get(name);
    TreeSet<String> lines = new TreeSet<>();
    switch (s.kind()) {
      case WINDOW: {
        ReadOnlyWindowStore<Object, Object> store = streams.store(StoreQueryParameters.fromNameAndType(name, QueryableStoreTypes.windowStore()));
        try (KeyValueIterator<Windowed<Object>, Object> it = store.all()) {
          it.forEachRemaining(e -> {
            Object found = store.fetch(e.key.key(), e.key.window().start()); // asked for by key and window, as callers do
            lines.add(line(s, e.key.key(), e.key.window().start() + " " + e.key.window().end(), found));
          });
        }
        break;
      }
      case SESSION: {
        ReadOnlySessionStore<Object, Object> store = streams.store(StoreQueryParameters.fromNameAndType(name, QueryableStoreTypes.sessionStore()));
        TreeSet<String> keys = new TreeSet<>();
        ReadOnlyKeyValueStore<Object, Object> counts = streams.store(StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.keyValueStore()));
        try (KeyValueIterator<Object, Object> it = counts.all()) {
          it.forEachRemaining(e -> keys.add((String) e.key));
        }
        for (String key : keys) {
          try (KeyValueIterator<Windowed<Object>, Object> it = store.fetch(key)) {
            while (it.hasNext()) {
              KeyValue<Windowed<Object>, Object> e = it.next();
              lines.add(line(s, key, e.key.window().start() + " " + e.key.window().end(), e.value));
            }
          }
        }
        break;
      }
      case VERSIONED: {
        ReadOnlyKeyValueStore<Object, Object> counts = streams.store(StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.keyValueStore()));
        try (KeyValueIterator<Object, Object> it = counts.all()) {
          it.forEachRemaining(e -> versions(streams, name, s, e.key, lines));
        }
        break;
      }
      default: {
        ReadOnlyKeyValueStore<Object, Object> store = streams.store(StoreQueryParameters.fromNameAndType(name, QueryableStoreTypes.keyValueStore()));
        try (KeyValueIterator<Object, Object> it = store.all()) {
          it.forEachRemaining(e -> lines.add(line(s, e.key, "", store.get(e.key))));
        }
      }
    }
    return lines.isEmpty() ? "" : String.join("\n", lines) + "\n";
  }

  private static void versions(KafkaStreams streams, String name, IqQuery.Store s, Object key, TreeSet<String> lines) {
    MultiVersionedKeyQuery<Object, Object> all = MultiVersionedKeyQuery.withKey(key);
    streams.query(StateQueryRequest.inStore(name).withQuery(all)).getPartitionResults().values().forEach(r -> {
      if (r.isFailure()) {
        throw new IllegalStateException(r.getFailureMessage());
      }
      try (VersionedRecordIterator<Object> it = r.getResult()) {
        while (it.hasNext()) {
          VersionedRecord<Object> v = it.next();
          lines.add(line(s, key, v.timestamp() + " " + (v.validTo().isPresent() ? v.validTo().get().toString() : "-"), v.value()));
        }
      }
    });
  }

  @SuppressWarnings("unchecked")
  private static String line(IqQuery.Store s, Object key, String times, Object value) {
    byte[] k = ((Serde<Object>) s.keys()).serializer().serialize(null, key);
    byte[] v = ((Serde<Object>) s.values()).serializer().serialize(null, value);
    HexFormat hex = HexFormat.of();
    return hex.formatHex(k) + " " + (times.isEmpty() ? "" : times + " ") + (v == null ? "absent" : "=" + hex.formatHex(v));
  }
}
