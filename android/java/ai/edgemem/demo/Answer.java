package ai.edgemem.demo;

import ai.edgemem.Port;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** What a model's outputs mean: lines of text, and boxes in the picture. */
final class Answer {
  private static final int MOST_CLASSES = 5;
  private static final int MOST_LINES = 16;

  final List<String> lines;
  final List<Faces.Box> boxes;

  private Answer(List<String> lines, List<Faces.Box> boxes) {
    this.lines = Collections.unmodifiableList(lines);
    this.boxes = boxes;
  }

  /**
   * @param ports of the outputs, in the model's order
   * @param values of these, by name
   * @param side of the input picture in pixels, or 0 if there is none
   */
  static Answer of(Config.Task task, List<String> labels, List<Port> ports, Map<String, float[]> values, int side) {
    if (task == Config.Task.FACES) {
      List<Faces.Box> boxes = Faces.find(ports, values, side);
      if (boxes != null) {
        return faces(boxes);
      }
    }
    if (task == Config.Task.CLASSES && !ports.isEmpty() && values.get(ports.get(0).name).length > 0) {
      return classes(values.get(ports.get(0).name), labels);
    }
    Answer answer = tensors(ports, values);
    if (task == Config.Task.TENSORS) {
      return answer;
    }
    List<String> lines = new ArrayList<>();
    lines.add("these outputs are not known as " + task.name().toLowerCase(Locale.ROOT) + ":");
    lines.addAll(answer.lines);
    return new Answer(lines, answer.boxes);
  }

  private static Answer faces(List<Faces.Box> boxes) {
    List<String> lines = new ArrayList<>();
    lines.add(boxes.size() == 1 ? "1 face" : boxes.size() + " faces");
    for (Faces.Box box : boxes) {
      lines.add(
          String.format(
              Locale.ROOT,
              "%.0f%% at %.2f, %.2f, size %.2f x %.2f",
              100 * box.score,
              (box.left + box.right) / 2,
              (box.top + box.bottom) / 2,
              box.right - box.left,
              box.bottom - box.top));
    }
    return new Answer(lines, boxes);
  }

  private static Answer classes(float[] scores, List<String> labels) {
    float[] shares = isShares(scores) ? scores : softmax(scores);
    List<String> lines = new ArrayList<>();
    boolean[] isTaken = new boolean[scores.length];
    for (int rank = 0; rank < Math.min(MOST_CLASSES, scores.length); rank++) {
      int best = -1;
      for (int i = 0; i < scores.length; i++) {
        if (!isTaken[i] && (best < 0 || shares[i] > shares[best])) {
          best = i;
        }
      }
      isTaken[best] = true;
      String label = best < labels.size() ? labels.get(best) : "class " + best;
      lines.add(String.format(Locale.ROOT, "%5.1f%%  %s", 100 * shares[best], label));
    }
    return new Answer(lines, Collections.<Faces.Box>emptyList());
  }

  /** Whether they are probabilities already. */
  private static boolean isShares(float[] scores) {
    double sum = 0;
    for (float score : scores) {
      if (!(score >= 0)) {
        return false;
      }
      sum += score;
    }
    return Math.abs(sum - 1) < 1e-2;
  }

  static float[] softmax(float[] scores) {
    float most = Float.NEGATIVE_INFINITY;
    for (float score : scores) {
      most = Math.max(most, score);
    }
    double sum = 0;
    float[] shares = new float[scores.length];
    for (int i = 0; i < scores.length; i++) {
      shares[i] = (float) Math.exp(scores[i] - most);
      sum += shares[i];
    }
    for (int i = 0; i < shares.length; i++) {
      shares[i] /= (float) sum;
    }
    return shares;
  }

  private static Answer tensors(List<Port> ports, Map<String, float[]> values) {
    List<String> lines = new ArrayList<>();
    for (Port port : ports) {
      if (lines.size() == MOST_LINES) {
        lines.add("and " + (ports.size() - MOST_LINES) + " more");
        break;
      }
      lines.add(port + ": " + numbers(values.get(port.name)));
    }
    return new Answer(lines, Collections.<Faces.Box>emptyList());
  }

  private static String numbers(float[] values) {
    if (values.length == 0) {
      return "empty";
    }
    float least = Float.POSITIVE_INFINITY;
    float most = Float.NEGATIVE_INFINITY;
    double sum = 0;
    for (float value : values) {
      least = Math.min(least, value);
      most = Math.max(most, value);
      sum += value;
    }
    return String.format(Locale.ROOT, "%.5g to %.5g, mean %.5g", least, most, sum / values.length);
  }
}
