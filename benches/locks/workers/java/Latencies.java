package zklock.bench;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Base64;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.HdrHistogram.AtomicHistogram;
import org.HdrHistogram.Histogram;

/** The latencies of a turn, as histograms. They are measured only if the task asks for them. */
final class Latencies {
    /** Longest latency in microseconds that a histogram can contain. */
    private static final long LONGEST = 60_000_000;

    /** A sleep that ends later than this was delayed by more than the precision of the timers. */
    private static final long TIMER = 2_000_000;

    /** Time limit for the operation that is in progress at the end of a turn. */
    private static final long SETTLED = 10_000_000_000L;

    /** Start of a turn while no turn is in progress: no operation can begin later. */
    private static final long NEVER = Long.MAX_VALUE;

    private static final String[] NAMES = {"acquire", "release", "handoff"};

    final boolean on;
    private final boolean exclusive;

    /** Time in nanoseconds between two scheduled starts, or zero. */
    private final long period;

    /** Time in nanoseconds between the schedules of two contenders. */
    private final long offset;

    private final AtomicInteger stopwatches = new AtomicInteger();

    private final long epoch = System.nanoTime();
    private final AtomicHistogram[] recorded =
            Arrays.stream(NAMES).map(name -> new AtomicHistogram(1, LONGEST, 3)).toArray(AtomicHistogram[]::new);

    /** True if a contender waits for the gate. */
    private final AtomicBoolean parked = new AtomicBoolean();

    /** Only operations that begin after the turn has begun are recorded. */
    private volatile long turn = NEVER;

    /** Time of the newest call of a release. */
    private volatile long released;

    Latencies(boolean on, boolean exclusive, double period, int contenders) {
        this.on = on;
        this.exclusive = exclusive;
        this.period = (long) (period * 1e9);
        offset = this.period / contenders;
    }

    private long now() {
        return System.nanoTime() - epoch;
    }

    void begin() {
        turn = now();
    }

    /** Ends the turn and returns its histograms as a JSON object. */
    String take() throws InterruptedException {
        // The operation that was in progress at the end of the turn is complete when its holder waits for the gate.
        // Without this, a turn would usually lose its longest latency.
        for (long end = now() + SETTLED; exclusive && !parked.get() && now() < end; ) {
            Thread.sleep(1);
        }
        turn = NEVER;
        StringBuilder told = new StringBuilder("{");
        for (int which = 0; which < NAMES.length; which++) {
            told.append(which == 0 ? "" : ", ").append('"').append(NAMES[which]).append("\": \"");
            told.append(text(recorded[which])).append('"');
            recorded[which].reset();
        }
        return told.append('}').toString();
    }

    private static String text(Histogram histogram) {
        ByteBuffer buffer = ByteBuffer.allocate(histogram.getNeededByteBufferCapacity());
        int length = histogram.encodeIntoCompressedByteBuffer(buffer);
        return Base64.getEncoder().encodeToString(Arrays.copyOf(buffer.array(), length));
    }

    private void record(int which, long began, long now) {
        if (began >= turn) {
            recorded[which].recordValue(Math.min(Math.max((now - began) / 1_000, 1), LONGEST));
        }
    }

    /** Waits for the gate. */
    void pass(CountDownLatch gate) throws InterruptedException {
        if (gate.getCount() > 0) {
            parked.set(true);
            gate.await();
            parked.set(false);
        }
    }

    /** Measures the operations of one contender. */
    final class Stopwatch {
        /**
         * Time from the beginning of a turn to the first scheduled start. The contenders start one after the other, so
         * that their requests do not arrive all at once.
         */
        private final long first = stopwatches.getAndIncrement() * offset;

        private long began;
        private long scheduled;
        private long scheduledIn = NEVER;

        /**
         * Call this before an acquire. With a period, it returns at the scheduled time. If the previous pair ended
         * after that time, the acquire counts from the scheduled time, so that a stall counts for every pair that it
         * delays.
         */
        void start() throws InterruptedException {
            if (!on) {
                return;
            }
            began = now();
            long current = turn;
            if (period == 0 || current == NEVER) {
                return;
            }
            // The schedule of a turn starts with the first pair of the turn.
            long next = scheduledIn == current ? scheduled + period : began + first;
            scheduledIn = current;
            scheduled = next;
            boolean idle = began < next;
            if (idle) {
                TimeUnit.NANOSECONDS.sleep(next - began);
            }
            long now = now();
            began = idle && now - next < TIMER ? now : next;
        }

        void acquired() {
            if (on) {
                long now = now();
                record(0, began, now);
                if (exclusive) {
                    record(2, released, now);
                }
            }
        }

        void releasing() {
            if (on) {
                began = now();
                released = began;
            }
        }

        void released() {
            if (on) {
                record(1, began, now());
            }
        }
    }
}
