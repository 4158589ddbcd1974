// SPDX-License-Identifier: Apache-2.0 OR MIT
import java.nio.file.*;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.concurrent.*;
import java.util.stream.IntStream;

public class Storm {
    static Void one(int number) throws Exception {
        Path name = Path.of("d" + number % 16, "" + number), moved = Path.of("d" + number % 7, "m" + number);
        Files.writeString(name, "" + number, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        Files.setPosixFilePermissions(name, PosixFilePermissions.fromString("rw-r-----"));
        Files.move(name, moved, StandardCopyOption.ATOMIC_MOVE);
        if (!Files.readString(moved).equals("" + number)) throw new Exception(moved.toString());
        if (number % 2 == 1) Files.delete(moved);
        return null;
    }

    public static void main(String[] arguments) throws Exception {
        for (int number = 0; number < 16; number++) Files.createDirectory(Path.of("d" + number));
        ExecutorService pool = Executors.newFixedThreadPool(16);
        var all = IntStream.range(0, Integer.parseInt(arguments[0])).<Callable<Void>>mapToObj(number -> () -> one(number)).toList();
        for (Future<Void> done : pool.invokeAll(all)) done.get();
        pool.shutdown();
    }
}
