import android.app.Activity;
import android.content.Intent;
import android.net.Uri;
import android.os.Bundle;
import android.os.Looper;
import android.view.MotionEvent;
import android.view.View;
import android.view.ViewGroup;
import android.widget.CompoundButton;
import android.widget.TextView;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Starts the app's activity on a JVM and does what its arguments say, one after the other.
 *
 * <pre>
 *   java -Dapk=demo.apk -cp host:app Host ai.edgemem.demo.MainActivity ACTION...
 *     until TAG REGEX     waits until the text of the view with this tag has a match
 *     press TAG           clicks a button, turns a switch
 *     tap TAG X Y         touches a view at these shares of its width and height
 *     rotate              turns the screen: the activity is destroyed, and made again
 *     kill                ends the activity, and makes one from the state that it saved
 *     leave, back         to the background, and to the front again
 *     pick FILE           the app that was asked for a picture gives this one
 *     finish              ends the activity, and waits until its threads have ended
 *     dump                prints the screen: a JSON array of views, in one line
 * </pre>
 *
 * An `until` that does not come true in `host.seconds` (60) prints the screen and ends with exit code 1.
 */
public final class Host {
  private static final int WIDTH = 1080;

  private Activity activity;

  private Host() {}

  public static void main(String[] args) throws Exception {
    Host host = new Host();
    Deque<String> left = new ArrayDeque<>(Arrays.asList(args));
    Class<?> kind = Class.forName(left.remove());
    host.activity = made(kind);
    host.activity.launch(null, null);
    while (!left.isEmpty()) {
      host.act(left.remove(), left, kind);
    }
    while (Looper.next(0)) {}
    System.exit(0); // threads of the app do not keep a process alive on Android, either
  }

  private static Activity made(Class<?> kind) throws ReflectiveOperationException {
    return (Activity) kind.getDeclaredConstructor().newInstance();
  }

  private void act(String action, Deque<String> left, Class<?> kind) throws Exception {
    switch (action) {
      case "until":
        until(left.remove(), Pattern.compile(left.remove()));
        break;
      case "press":
        find(left.remove()).performClick();
        break;
      case "tap":
        tap(find(left.remove()), Float.parseFloat(left.remove()), Float.parseFloat(left.remove()));
        break;
      case "rotate":
      case "kill":
        boolean isTurn = action.equals("rotate");
        Bundle state = activity.leave(isTurn);
        Object kept = isTurn ? activity.onRetainNonConfigurationInstance() : null;
        activity.end();
        activity = made(kind);
        activity.launch(kept, state);
        break;
      case "leave":
        activity.background();
        break;
      case "back":
        activity.foreground();
        break;
      case "pick":
        Intent data = new Intent("");
        data.data = Uri.ofFile(left.remove());
        activity.answer(Activity.RESULT_OK, data);
        break;
      case "finish":
        activity.leave(false);
        activity.end();
        await(System.nanoTime() + seconds());
        break;
      case "dump":
        System.out.println(screen());
        break;
      default:
        throw new IllegalArgumentException("there is no action " + action);
    }
  }

  /** In nanoseconds. */
  private static long seconds() {
    return 1_000_000_000L * Integer.getInteger("host.seconds", 60);
  }

  private static void await(long end) throws InterruptedException {
    Thread[] all = new Thread[16];
    while (Thread.enumerate(all) > 1) {
      if (System.nanoTime() > end) {
        System.err.println("a thread of the app goes on after its end: " + all[1].getName());
        System.exit(1);
      }
      Looper.next(20);
      Arrays.fill(all, null);
    }
  }

  private void until(String tag, Pattern pattern) throws Exception {
    long end = System.nanoTime() + seconds();
    while (!pattern.matcher(((TextView) find(tag)).text).find()) {
      if (System.nanoTime() > end) {
        System.out.println(screen());
        System.err.println("the view " + tag + " never had " + pattern);
        System.exit(1);
      }
      Looper.next(100);
    }
  }

  private static void tap(View view, float x, float y) {
    for (int action : new int[] {MotionEvent.ACTION_DOWN, MotionEvent.ACTION_UP}) {
      view.onTouchEvent(new MotionEvent(action, x * view.getWidth(), y * view.getHeight()));
    }
  }

  private View find(String tag) {
    activity.content.lay(WIDTH);
    View found = find(activity.content, tag);
    if (found == null) {
      throw new IllegalArgumentException("no view has the tag " + tag);
    }
    return found;
  }

  private static View find(View view, String tag) {
    if (tag.equals(view.tag)) {
      return view;
    }
    if (view instanceof ViewGroup) {
      for (View child : ((ViewGroup) view).children) {
        View found = find(child, tag);
        if (found != null) {
          return found;
        }
      }
    }
    return null;
  }

  private String screen() {
    activity.content.lay(WIDTH);
    StringBuilder json = new StringBuilder("[");
    add(json, activity.content);
    return json.append(']').toString();
  }

  private static void add(StringBuilder json, View view) {
    if (view.tag != null) {
      json.append(json.length() > 1 ? ", " : "").append("{\"tag\": ").append(quoted(view.tag.toString()));
      json.append(", \"visible\": ").append(view.visibility == View.VISIBLE);
      if (view instanceof TextView) {
        json.append(", \"text\": ").append(quoted(((TextView) view).text));
      } else {
        json.append(", \"drawn\": ").append(quoted(view.drawn()));
      }
      if (view instanceof CompoundButton) {
        json.append(", \"checked\": ").append(((CompoundButton) view).isChecked);
      }
      json.append('}');
    }
    if (view instanceof ViewGroup) {
      for (View child : ((ViewGroup) view).children) {
        add(json, child);
      }
    }
  }

  private static String quoted(List<String> texts) {
    StringBuilder json = new StringBuilder("[");
    for (String text : texts) {
      json.append(json.length() > 1 ? ", " : "").append(quoted(text));
    }
    return json.append(']').toString();
  }

  private static String quoted(String text) {
    StringBuilder json = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') {
        json.append('\\').append(c);
      } else if (c < ' ' || c > '~') {
        json.append(String.format("\\u%04x", (int) c));
      } else {
        json.append(c);
      }
    }
    return json.append('"').toString();
  }
}
