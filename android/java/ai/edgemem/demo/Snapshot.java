package ai.edgemem.demo;

import ai.edgemem.PlanSet;
import ai.edgemem.Provider;
import ai.edgemem.Record;
import ai.edgemem.Run;
import java.util.Collections;
import java.util.List;

/** What the screen shows; made on the engine's thread after each run, read on any. Sizes are bytes. */
final class Snapshot {
  String modelName = "";
  String runtimeVersion = "";
  boolean isPlanned = true;
  Provider provider = Provider.CPU;

  /** "" if all is well, else why there is nothing to show. */
  String error = "";

  List<String> notes = Collections.emptyList();
  List<Record> places = Collections.emptyList();

  /** The plan of a recording in the file, or another one that says the most about the model; null if there is none. */
  PlanSet planSet;

  Run run;
  int runs;
  double firstMs = Double.NaN;
  double medianMs = Double.NaN;
  double ninetiethMs = Double.NaN;
  int timed;
  Answer answer;
  Picture picture;
  String digest = "";
  double sum = Double.NaN;

  /** See {@link ProcessMemory#resident}. */
  long resident = -1;

  /** By how much the first run of a plain session and of a planned one made the native heap grow; -1 before it. */
  long plainGrowth = -1;

  long plannedGrowth = -1;
}
