import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;

/**
 * Reads keys, one a line in hexadecimal digits (an empty line is the empty key), writes each to a topic with the value
 * "java", by a producer with no settings of its own, and prints for each: the key, Utils.murmur2, and the partitions that
 * the producer's partitioner gives for the counts.
 *
 * Arguments: bootstrap servers, topic, counts.
 */
public class ProduceKeys {
    public static void main(String[] args) throws Exception {
        List<byte[]> keys = new ArrayList<>();
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            keys.add(HexFormat.of().parseHex(line));
        }
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0]);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            var sent = new ArrayList<java.util.concurrent.Future<?>>();
            for (byte[] key : keys) {
                sent.add(producer.send(new ProducerRecord<>(args[1], key, "java".getBytes(StandardCharsets.US_ASCII))));
            }
            for (var each : sent) {
                each.get();
            }
        }
        var out = new StringBuilder();
        for (byte[] key : keys) {
            out.append(HexFormat.of().formatHex(key)).append('\t').append(Utils.murmur2(key));
            for (int i = 2; i < args.length; i++) {
                out.append('\t').append(BuiltInPartitioner.partitionForKey(key, Integer.parseInt(args[i])));
            }
            out.append('\n');
        }
        System.out.print(out);
    }
}
