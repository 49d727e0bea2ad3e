package ai.edgemem.demo;

import ai.edgemem.PlanSet;
import ai.edgemem.Record;
import ai.edgemem.Run;
import java.util.Locale;

/** The sentences and figures of the screen. No android import. */
final class Texts {
  private Texts() {}

  /** A size as people read it: 1.50 MiB. */
  static String size(long bytes) {
    if (bytes < 1024) {
      return bytes + " B";
    }
    if (bytes < 1024 * 1024) {
      return String.format(Locale.ROOT, "%.1f KiB", bytes / 1024.0);
    }
    return String.format(Locale.ROOT, "%.2f MiB", bytes / (1024.0 * 1024));
  }

  /** A whole number with commas. */
  static String count(long number) {
    return String.format(Locale.ROOT, "%,d", number);
  }

  static String title(Snapshot state) {
    String who = state.runtimeVersion.isEmpty() ? "" : " in ONNX Runtime " + state.runtimeVersion + " on " + state.provider;
    return state.modelName + who;
  }

  /** The one figure that the app is about. */
  static String headline(Snapshot state) {
    if (!state.error.isEmpty()) {
      return "It does not run";
    }
    if (!state.isPlanned) {
      return state.runs == 0 ? "Opening" : "Without a plan";
    }
    if (state.run == null) {
      return "Opening";
    }
    return state.run.source == Run.Source.RECORDED ? "Recording" : size(state.run.arena) + " arena";
  }

  static String subline(Snapshot state) {
    if (!state.error.isEmpty()) {
      return state.error;
    }
    if (!state.isPlanned) {
      return "ONNX Runtime takes memory as it likes; switch to planned to see what a plan needs";
    }
    Run run = state.run;
    if (run == null) {
      return "";
    }
    if (run.source == Run.Source.RECORDED) {
      return "this run had no plan: it was recorded, to plan the next one";
    }
    if (!run.isComplete) {
      return count(run.misses) + " requests did not fit into the plan and came from the heap";
    }
    String bound =
        run.planned == run.lowerBound
            ? "= lower bound: no plan is smaller"
            : String.format(Locale.ROOT, "%.3fx of the lower bound", run.planned / (double) run.lowerBound);
    String fit = run.measured == run.planned ? "measured = planned" : "measured below planned";
    return bound + "; " + fit;
  }

  /** Which plan ran. */
  static String source(Snapshot state) {
    if (!state.isPlanned) {
      return "plan: off";
    }
    if (state.run == null) {
      return "plan: not run yet";
    }
    long changes = state.run.replans;
    String changed = changes > 0 ? ", " + count(changes) + (changes == 1 ? " change" : " changes") + " of plan" : "";
    return "plan: " + state.run.source.words + changed;
  }

  /** Why the last run did not follow the plan in the file, or no plan at all; "" if there is nothing to tell. */
  static String planNote(Snapshot state) {
    Run run = state.run;
    if (run == null) {
      return "";
    }
    if (run.requests == 0) {
      return "the run asked edgemem's allocator for nothing: the runtime took its memory elsewhere";
    }
    PlanSet set = state.planSet;
    if (run.source == Run.Source.FILE || set == null) {
      return "";
    }
    if (set.kind != PlanSet.Kind.RECORDING) {
      return "the plan in the file is of the graph alone: plan with --record --android for one that a device follows";
    }
    if (!set.isUsable) {
      return "the plan in the file has parts that a device does not follow";
    }
    if (run.source == Run.Source.RECORDED) {
      return "no plan could be set up here: the one in the file has " + size(set.arena) + ", aligned to " + set.alignment;
    }
    return "the plan in the file, recorded with "
        + set.runtime
        + " "
        + set.version
        + ", does not fit what ONNX Runtime "
        + state.runtimeVersion
        + " asks for here";
  }

  static String memory(Snapshot state) {
    StringBuilder text = new StringBuilder();
    Run run = state.run;
    if (state.isPlanned && run != null) {
      line(text, "planned", bytes(run.planned));
      line(text, "measured", bytes(run.measured) + ", the highest byte in use");
      line(text, "lower bound", bytes(run.lowerBound));
      line(text, "no sharing", bytes(run.naive));
      line(text, "from the arena", count(run.hits) + " of " + count(run.requests) + " requests");
      line(text, "from the heap", bytes(run.heapPeak) + " at most");
    }
    if (state.planSet != null) {
      PlanSet set = state.planSet;
      String what = set.kind == PlanSet.Kind.RECORDING ? "recording of " + set.runtime + " " + set.version : "graph";
      line(text, "in the file", bytes(set.arena) + ", " + set.strategy + ", plan of the " + what.trim());
    }
    if (state.plannedGrowth >= 0) {
      line(text, "first run", "native heap, arena and pool +" + size(state.plannedGrowth) + " planned");
    }
    if (state.plainGrowth >= 0) {
      line(text, "first run", "native heap +" + size(state.plainGrowth) + " plain (ONNX Runtime's own arena and all else)");
    }
    if (state.resident >= 0) {
      line(text, "whole app", size(state.resident) + " in RAM (VmRSS, with weights, Java and libraries)");
    }
    return text.toString();
  }

  private static String bytes(long bytes) {
    return count(bytes) + " bytes";
  }

  private static void line(StringBuilder text, String name, String value) {
    if (text.length() > 0) {
      text.append('\n');
    }
    text.append(String.format(Locale.ROOT, "%-14s %s", name, value));
  }

  static String latency(Snapshot state) {
    if (Double.isNaN(state.firstMs)) {
      return "";
    }
    String first = String.format(Locale.ROOT, "first run %.2f ms", state.firstMs);
    if (state.timed == 0) {
      return first;
    }
    return first
        + String.format(
            Locale.ROOT,
            "; last %d: median %.2f ms, 90%% within %.2f ms",
            state.timed,
            state.medianMs,
            state.ninetiethMs);
  }

  static String answer(Snapshot state) {
    return state.answer == null ? "" : joined(state.answer.lines);
  }

  /** For comparing with another machine. */
  static String digest(Snapshot state) {
    if (state.digest.isEmpty()) {
      return "";
    }
    return String.format(Locale.ROOT, "outputs: sum %.9g, sha256 %s", state.sum, state.digest);
  }

  static String notes(Snapshot state) {
    return joined(state.notes);
  }

  static String selection(Record record) {
    if (record == null) {
      return "Tap a rectangle: each is a request of the run, as wide as it lives and as high as it is large.";
    }
    String name = record.name.isEmpty() ? "a request without a name" : record.name;
    return name
        + ": "
        + bytes(record.size)
        + " at "
        + count(record.offset)
        + ", events "
        + count(record.first)
        + " to "
        + count(record.last);
  }

  private static String joined(Iterable<String> lines) {
    StringBuilder text = new StringBuilder();
    for (String line : lines) {
      text.append(text.length() == 0 ? "" : "\n").append(line);
    }
    return text.toString();
  }
}
