import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/** Records of every type, encoded and told as JSON by Kafka's own generated classes: one a line, tab-separated. */
public class KafkaRecords {
    static final int VARIANTS = 3;
    static int counter;

    public static void main(String[] arguments) throws Exception {
        for (String room : new String[] {"group", "share"}) {
            String head = "org.apache.kafka.coordinator." + room + ".generated.";
            Class<?> types = Class.forName(head + "CoordinatorRecordType");
            Class<?> json = Class.forName(head + "CoordinatorRecordJsonConverters");
            for (Object type : types.getEnumConstants()) {
                short id = (short) types.getMethod("id").invoke(type);
                short version = (short) types.getMethod("highestSupportedVersion").invoke(type);
                for (int variant = 0; variant < VARIANTS; variant++) {
                    counter = 100 * id + variant;
                    ApiMessage key = (ApiMessage) types.getMethod("newRecordKey").invoke(type);
                    ApiMessage value = (ApiMessage) types.getMethod("newRecordValue").invoke(type);
                    fill(key, variant);
                    fill(value, variant);
                    Object keyJson = json.getMethod("writeRecordKeyAsJson", ApiMessage.class).invoke(null, key);
                    Object valueJson =
                        json.getMethod("writeRecordValueAsJson", ApiMessage.class, short.class)
                            .invoke(null, value, version);
                    HexFormat hex = HexFormat.of();
                    System.out.println(
                        String.join("\t", room, "" + id, "" + variant,
                            hex.formatHex(MessageUtil.toCoordinatorTypePrefixedBytes(key)),
                            hex.formatHex(MessageUtil.toVersionPrefixedBytes(version, value)),
                            keyJson.toString(), valueJson.toString()));
                }
            }
        }
    }

    /** 0: as a new object is, what may be null is; 1: something in each field; 2: each at its extreme, and a tag that nobody knows. */
    static void fill(Object message, int variant) throws Exception {
        for (Field field : message.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers())) continue;
            field.setAccessible(true);
            if (field.getName().equals("_unknownTaggedFields")) {
                String name = message.getClass().getName();
                boolean isKey = name.endsWith("Key") || name.contains("Legacy");
                if (variant == 2 && !isKey) field.set(message, new ArrayList<>(List.of(new RawTaggedField(4321, new byte[] {7, 7}))));
                continue;
            }
            boolean nullableStruct = field.getType().getName().contains("generated");
            if (variant == 0 && (nullableStruct || field.get(message) == null)) continue;
            if (variant == 0 && !message.getClass().getName().endsWith("Key")) continue;
            if (field.getName().equals("port")) field.set(message, variant == 2 ? 65535 : 8080);
            else field.set(message, value(field.getGenericType(), variant));
        }
    }

    static Object value(java.lang.reflect.Type type, int variant) throws Exception {
        counter++;
        if (type instanceof ParameterizedType) {
            java.lang.reflect.Type item = ((ParameterizedType) type).getActualTypeArguments()[0];
            List<Object> items = new ArrayList<>();
            for (int n = 0; n < (variant == 2 ? 2 : 1); n++) items.add(value(item, variant));
            return items;
        }
        Class<?> kind = (Class<?>) type;
        boolean most = variant == 2;
        if (kind == byte.class || kind == Byte.class) return most ? Byte.MAX_VALUE : (byte) (counter % 3);
        if (kind == short.class || kind == Short.class) return most ? Short.MIN_VALUE : (short) (counter % 100);
        if (kind == int.class || kind == Integer.class) return most ? Integer.MIN_VALUE + counter : counter;
        if (kind == long.class || kind == Long.class) return most ? Long.MAX_VALUE - counter : 1_700_000_000_000L + counter;
        if (kind == String.class) return most ? "ü\uD83D\uDEEB".repeat(22) + counter : "text-" + counter;
        if (kind == Uuid.class) return new Uuid(counter, most ? -counter : counter);
        if (kind == byte[].class) return most ? new byte[300] : new byte[] {1, 2, 3};
        Object made = kind.getConstructor().newInstance();
        fill(made, variant);
        return made;
    }
}
