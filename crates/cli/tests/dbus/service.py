# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Services on a bus, by their names; what they are asked for is noted in a file."""
import os, sys
import dbus, dbus.service
from dbus.mainloop.glib import DBusGMainLoop
from gi.repository import GLib

DBusGMainLoop(set_as_default=True)
notes, kind, *names = sys.argv[1:]
bus = dbus.SystemBus() if kind == "system" else dbus.SessionBus()


def note(text):
    with open(notes, "a") as file:
        file.write(text + "\n")


class Service(dbus.service.Object):
    @dbus.service.method("org.example.Echo", in_signature="s", out_signature="s")
    def Say(self, text):
        note("say " + text)
        return text

    @dbus.service.method("org.example.Echo")
    def Secret(self):
        note("secret")

    @dbus.service.method("org.example.Echo", in_signature="h", out_signature="s")
    def Take(self, file):
        return os.read(file.take(), 100).decode()

    @dbus.service.method("org.example.Echo", out_signature="h")
    def Give(self):
        reading, writing = os.pipe()
        os.write(writing, b"given")
        os.close(writing)
        return dbus.types.UnixFd(reading)

    # What a portal's backend is asked.
    @dbus.service.method("org.freedesktop.impl.portal.Account", in_signature="ossa{sv}", out_signature="ua{sv}")
    def GetUserInformation(self, handle, app_id, window, options):
        note("portal " + app_id)
        return dbus.UInt32(0), {"id": dbus.String("user"), "name": dbus.String("User")}

    # And who is told which processes play: by their numbers here.
    @dbus.service.method("com.feralinteractive.GameMode", in_signature="i", out_signature="i")
    def RegisterGame(self, pid):
        with open("/proc/%d/status" % pid) as status:
            inside = next(line.split()[-1] for line in status if line.startswith("NSpid:"))
        note("game " + inside)
        return 0


class Shell(dbus.service.Object):
    """GNOME's shell, as far as its extensions go, with what else may be done by the same process."""

    @dbus.service.method("org.gnome.Shell.Extensions", out_signature="s")
    def ListExtensions(self):
        self.ExtensionStateChanged("listed")
        return "extensions"

    @dbus.service.method("org.gnome.Shell.Extensions", in_signature="s", out_signature="s")
    def InstallRemoteExtension(self, uuid):
        note("install " + uuid)
        return "cancelled"

    @dbus.service.method("org.gnome.Shell.Extensions", in_signature="s", out_signature="s")
    def ReloadExtension(self, uuid):
        note("reload " + uuid)
        return "reloaded"

    @dbus.service.signal("org.gnome.Shell.Extensions", signature="s")
    def ExtensionStateChanged(self, uuid):
        pass

    @dbus.service.method("org.gnome.Shell", in_signature="s", out_signature="s")
    def Eval(self, script):
        note("eval " + script)
        return "evaluated"


kept = [dbus.service.BusName(name, bus) for name in names]
paths = ("/org/example/Echo", "/org/freedesktop/portal/desktop", "/com/feralinteractive/GameMode")
services = [Service(bus, path) for path in paths] + [Shell(bus, "/org/gnome/Shell/Extensions")]
note("ready " + kind)
GLib.MainLoop().run()
