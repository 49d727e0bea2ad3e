package ai.edgemem;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** One request of a plan: when it is alive and where it lies. */
public final class Record {
  /** Of the tensor or of the kernel that asked; may be empty. */
  public final String name;

  /** The first step, an operator or an event of a recorded run, at which the bytes are in use. */
  public final long first;

  /** The last step at which they are in use, inclusive. */
  public final long last;

  /** In bytes. */
  public final long size;

  /** From the arena's start, in bytes; negative if the heap serves the request. */
  public final long offset;

  /** As the plan file numbers kinds of records. */
  public final int kind;

  public Record(String name, long first, long last, long size, long offset, int kind) {
    this.name = name;
    this.first = first;
    this.last = last;
    this.size = size;
    this.offset = offset;
    this.kind = kind;
  }

  /** The records of two native arrays: a name and 5 numbers each. */
  static List<Record> listOf(String[] names, long[] numbers) {
    if (numbers.length != 5 * names.length) {
      throw new IllegalStateException(names.length + " names but " + numbers.length + " numbers of records");
    }
    List<Record> records = new ArrayList<>(names.length);
    for (int i = 0; i < names.length; i++) {
      int at = 5 * i;
      records.add(
          new Record(
              names[i], numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3], (int) numbers[at + 4]));
    }
    return Collections.unmodifiableList(records);
  }

  @Override
  public String toString() {
    return name + ": " + size + " bytes at " + offset + ", steps " + first + " to " + last;
  }
}
